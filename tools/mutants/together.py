"""Judges faults that few tests said nothing about by all tests: many faults in one build. A test that passes with all of them
notices none of them. One that fails is asked about each fault alone, until what it noticed is found; that fault is taken out.
A fault could hide another: then too few are noticed, never too many."""

import concurrent.futures
import os
import queue
import time

import operators
from tests import Broken, FAILED, HUNG, Late, take_cores

CAUGHT, SURVIVED, OPEN = "caught", "survived", "not judged"
PYTHON = "src/python/"


class Together:
    def __init__(self, run, draws):
        self.run, self.n, self.options = run, run.options.together, run.options
        self.open = {m: d for d in draws for m in d.with_result(OPEN)}
        self.texts = {}
        self.builds = []
        while not run.builds.empty():
            self.builds.append(run.builds.get())
        self.build = self.builds[0]
        self.jobs = queue.Queue()
        for i in range(len(self.builds)):
            self.jobs.put(i)

    def judge(self):
        for group in self.groups():
            try:
                self.judge_group(group)
            except Broken as e:
                self.run.say(f"a group of {len(group)} does not build: {str(e)[-300:]}")
            except Late:
                pass  # what was not judged stays so

    def groups(self):
        """Of a file each group has one fault at most, and faults of Python have groups of their own: other tests ask for them."""
        groups = []
        for mutant in sorted(self.open, key=lambda m: m.path.startswith(PYTHON)):
            fits = (g for g in groups if len(g) < self.n and all(m.path != mutant.path for m in g) and
                    g[0].path.startswith(PYTHON) == mutant.path.startswith(PYTHON))
            group = next(fits, None)
            if group is None:
                groups.append(group := [])
            group.append(mutant)
        return groups

    def names(self, group):
        """All tests that may be asked, long ones first, with their seconds; without those that let all of the group through.
        Of faults of Python all tests of Python that reach one; of others what the plain run of tools/test has."""
        passed, is_python = [set(self.run.known[m.id].get("passed", ())) for m in group], group[0].path.startswith(PYTHON)
        of, found = self.run.times.of, {}
        for name, test in self.build.tests.items():
            suites, is_file = self.build.suites(test), name.endswith(".py")
            if "project" in suites or name == "mutate" or "full" in suites and not (self.options.full and is_file and is_python):
                continue
            if is_python and (not is_file or not any(self.is_reached(name, m) for m in group)):
                continue
            if of.get(name, 0.0) is not None and not all(name in p for p in passed):
                found[name] = of.get(name, self.options.slow / 4)
        return dict(sorted(found.items(), key=lambda row: -row[1]))

    def put_in(self, group):
        for mutant in group:
            text = (self.build.tree / mutant.path).read_text(encoding="utf-8")
            self.texts[mutant] = text, operators.apply(text, mutant.fault)
            self.build.write(mutant.path, self.texts[mutant][1])

    def put_back(self, group):
        for mutant in group:
            if mutant in self.texts:
                self.build.write(mutant.path, self.texts.pop(mutant)[0])

    def judge_group(self, group):
        """Rounds: all tests on the group; then tests that failed on each fault alone, until one is noticed and taken out."""
        names, passed, tried = self.names(group), set(), set()
        while group and names:
            results = self.all_on(group, names)
            passed |= {n for n, r in results.items() if r not in (FAILED, HUNG)}
            if len(results) < len(names):
                for mutant in group:
                    self.keep(mutant, OPEN, passed)
                return
            failed, caught = [n for n in results if n not in passed], set()
            while not caught and self.untried(group, failed, tried):
                caught = self.singly(self.untried(group, failed, tried), tried)
            group, names = [m for m in group if m not in caught], {n: names[n] for n in failed if caught}
        for mutant in group:
            self.keep(mutant, SURVIVED, passed)

    def all_on(self, group, names):
        """What came of each test on all faults of the group; those that did not end before --stop are left out."""
        try:
            self.put_in(group)
            self.build.make(sorted({f for n in names for f in self.build.files_of(n)}))
            results = self.all(names)
        finally:
            self.put_back(group)
        failed = [n for n, r in results.items() if r in (FAILED, HUNG)]
        self.run.say(f"{len(group)} faults together: {len(results)} of {len(names)} tests, noticed by {', '.join(failed) or 'none'}")
        return results

    def untried(self, group, failed, tried):
        """For each fault the tests to ask about it alone, quick ones first: those that reach it, or none of the group."""
        of, found = self.run.times.of, {}
        for name in sorted(failed, key=lambda n: of.get(n) or 0.0):
            if of.get(name, 0.0) is not None:
                reached = [m for m in group if self.is_reached(name, m)]
                for mutant in reached or group:
                    if (name, mutant) not in tried:
                        found.setdefault(mutant, []).append(name)
        return found

    def keep(self, mutant, result, passed, **more):
        draw = self.open[mutant]
        known = self.run.known[mutant.id].get("passed", [])
        draw.of[mutant] = result
        self.run.keep(draw.folder, mutant, {"result": result, "passed": sorted({*known, *passed}), **more})

    def all(self, names):
        """What each test says, run beside each other in one build."""
        results, cores = {}, sorted(os.sched_getaffinity(os.getpid()))

        def one(name):
            job = self.jobs.get()
            try:
                take_cores(cores, job, len(self.builds))
                scratch, left = self.build.folder / "scratches" / str(job), self.run.end - time.monotonic()
                scratch.mkdir(parents=True, exist_ok=True)
                limit = max(self.run.times.limit(name), 60.0) if name in self.run.times.of else self.options.slow
                result = self.build.run(name, min(left, limit), scratch, is_made=True)[0] if left > 0 else HUNG
                if result != HUNG or left >= limit:
                    results[name] = result
            finally:
                self.jobs.put(job)
        self.build.put_into_site()
        self.on_all(one, names)
        return results

    def on_all(self, one, rows):
        with concurrent.futures.ThreadPoolExecutor(len(self.builds)) as pool:
            list(pool.map(one, rows))

    def singly(self, asked, tried):
        """Asks for each fault its first test; the faults that were noticed."""
        caught, free = set(), queue.Queue()
        for build in self.builds:
            free.put(build)

        def one(mutant):
            build, name = free.get(), asked[mutant][0]
            text = (build.tree / mutant.path).read_text(encoding="utf-8")
            texts = text, operators.apply(text, mutant.fault)
            try:
                tried.add((name, mutant))
                self.run.times.of.setdefault(name, self.options.slow / 4)
                build.write(mutant.path, texts[1])
                result = self.run.ask(build, name, mutant, texts)
                if result in (FAILED, HUNG):
                    caught.add(mutant)
                    self.keep(mutant, CAUGHT, (), by=name, how=result)
            finally:
                build.write(mutant.path, text)
                free.put(build)
        self.on_all(one, asked)
        return caught

    def is_reached(self, name, mutant):
        reach = self.run.reach
        if not reach:
            return True
        text = (self.build.tree / mutant.path).read_text(encoding="utf-8")
        start = text.count("\n", 0, mutant.fault.start) + 1
        reached = reach.tests_of(mutant.path, text, start, start + text.count("\n", mutant.fault.start, mutant.fault.end))
        return name not in reach.known or any(t.split("::")[0] == name for t in reached)
