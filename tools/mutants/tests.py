"""The build that tools/mutate breaks, and the tests that it runs there: which tests a folder has, and how they are run."""

import ast
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

from reach import FLAGS, HERE as REACH

# Folder of src -> suites and single tests that may notice a fault there. Quick programs come first by themselves.
TESTS_OF = {
    "base": ["base", "test_host", "test_store", "test_wisdom_text"],
    "expr": ["expr", "test_list_input", "test_list_faults", "test_interpret", "test_programs", "test_stage", "test_stats", "test_codegen_faults"],
    "store": ["store", "test_kept", "test_wisdom", "test_warm_start"],
    "kernel": ["kernel", "test_row", "test_gemm", "test_gemm_narrow", "test_choose", "test_launches"],
    "stage": ["stage", "test_row", "test_row_merge", "test_gemm", "test_gemm_narrow", "test_scan", "test_cuda_row", "test_codegen_faults"],
    "device": ["device", "test_kept", "test_warm_start", "test_life", "test_device_faults", "test_hostile_process"],
    "codegen": ["codegen", "family", "test_cuda_scan", "test_custom", "test_large"],
    "kernels": ["family", "test_codegen", "test_numeric", "test_kept"],
    "family": ["family", "custom", "test_names", "test_gpu_pool", "test_gpu_row_pool", "test_policy", "test_select", "test_gate", "spaces", "test_numeric",
               "test_cuda_scan", "test_cuda_gather", "test_cuda_scatter", "test_cuda_gemm", "test_cuda_column"],
    "build": ["build", "test_device_faults", "test_library", "test_async_fill", "test_warm_start", "test_fallback"],
    "tune": ["tune", "test_measure", "test_tuning", "test_hybrid", "test_gpu_pool", "test_gpu_row_pool", "test_recorded"],
    "dispatch": ["dispatch", "stats", "api", "custom"],
    "sequence": ["sequence", "test_api_faults", "test_device_faults", "test_merged", "test_given_back"],
    "combo": ["combo", "test_list", "test_list_input", "test_device_faults", "test_given_back"],
    "list": ["list", "test_device_faults", "test_given_back"],
    "package": ["package", "fuzz_package", "package_torch_more:test_backend_package.py"],
    "python": ["python"],
    "stats": ["stats", "test_api_scripted", "api:test_life", "test_options", "test_hybrid", "reports"],
    "api": ["api", "stats", "sequence", "test_policy", "test_dispatch_faults", "fuzz_op", "fuzz_hints", "ctypes", "example first_program"],
}
# What a fault is shown to that all of those let through: suites and tests of the folders that use this one.
THEN = {
    "base": ["store", "dispatch", "test_suite_host", "fuzz_store", "fuzz_wisdom"],
    "expr": ["stage", "test_digests", "test_guard_pages", "fuzz_formula", "fuzz_sizes", "test_check", "numpy", "test_numeric"],
    "store": ["api", "test_stored_picks", "test_stored_verdict", "fuzz_store", "tune_kill"],
    "kernel": ["dispatch", "test_cuda_gemm", "test_suite_host"],
    "stage": ["test_digests", "test_check", "test_guard_pages", "test_gate", "test_codegen", "numpy", "test_numeric"],
    "device": ["dispatch", "test_sequence_device"],
    "codegen": ["test_check", "test_gate", "test_cuda_gemm", "numpy", "test_numeric"],
    "kernels": ["test_guard_pages", "test_check", "numpy"],
    "family": ["test_digests", "dispatch", "test_codegen"],
    "build": ["dispatch", "test_bundle", "test_life", "api:test_told", "shared_store", "test_captured"],
    "tune": ["dispatch", "api", "mdctl"],
    "dispatch": ["sequence", "tune", "fuzz_op", "fuzz_sizes", "fuzz_hints", "fuzz_pairs", "reports", "mdctl"],
    "sequence": ["test_nulls", "fuzz_pairs", "example sequence", "package"],
    "combo": ["list", "test_nulls", "test_fork", "test_combos", "package_numpy"],
    "list": ["test_nulls", "package_numpy", "package_torch"],
    "stats": ["api", "dispatch", "mdctl"],
    "api": ["fuzz_sizes", "fuzz_pairs", "fuzz_formula", "reports", "example changing_batches", "example prepare_freeze", "example sequence",
            "example custom_kernel", "package", "mdctl"],
}
# Tests of the Python package are asked first if their file is called as the source; these are called otherwise.
PYTHON_KIN = {"compile": "backend", "plan": "backend", "plan_run": "backend", "plan_steps": "backend", "list": "lists",
              "__init__": "package", "ops": "package", "exchange": "package", "make": "package", "call": "package"}
# What compares much to the letter notices most, and is asked among the first of its stage.
BROAD = {"test_numbers", "test_digests", "test_programs", "test_check", "test_conformance"}
# Of modules of the backend: a word of the tests that are most about them.
PYTHON_ASKED = {"bags": "scatters", "causal": "attention", "chains": "attention", "complex_values": "values", "decompositions": "opinfo",
                "eager": "faults", "embedding": "scatters", "experts": "products", "formula": "values", "general": "sizes",
                "groups": "products", "lines": "values", "loops": "kernels", "lower": "values", "normal": "randoms", "orders": "values",
                "packing": "package", "pairs": "attention_back", "places": "scatters", "progress": "building", "reductions": "values",
                "results": "package", "scans": "pools", "stacks": "rewrite", "table": "opinfo", "ties": "pools", "together": "training",
                "tree": "values", "uniform": "rewrite", "views": "values"}
HOMES = ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")  # a folder of the test's own
FEW_CASES = 6.0  # seconds of a Python file's cases that are asked first
IMPORTS, LINK = 3.0, 0.5  # seconds before a Python file's first case; that linking a program takes
QUICK = 5.0  # seconds: programs that take longer wait for the quicker ones of their stage, unless they are called as the source
CMOCKA_FAILED = "[  FAILED  ]"
EXIT_SKIPPED = 77
PASSED, FAILED, SKIPPED, HUNG = "passed", "failed", "skipped", "hung"
GIB = 1 << 30


class Broken(Exception):
    """The tree does not build, or there is no such thing: nothing that is judged would mean anything."""


class Late(Exception):
    """The time of --stop is over: what is being judged is not counted."""


def with_limits(command, is_sanitized):
    """The command, whose processes leave no cores, and take no more memory than a test may need."""
    # not of addresses: the asynchronous device reserves many, and its memory is a sparse file; sanitizers reserve more
    limits = f"ulimit -c 0; ulimit -f {2 * GIB}; " + ("" if is_sanitized else f"ulimit -d {16 * GIB // 1024}; ")
    return ["sh", "-c", limits + 'exec "$@"', "sh", *command]


def end_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)  # its group is its own; what it started may outlive it
    except ProcessLookupError:
        pass


def run_limited(command, env, cwd, seconds):
    """Runs a command and whatever it starts, until its first case fails; its exit status, None where it took longer."""
    with subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, errors="replace", start_new_session=True) as child:
        late = threading.Event()
        clock = threading.Timer(seconds, lambda: (late.set(), end_group(child)))
        clock.start()
        try:
            failed = any(line.startswith(CMOCKA_FAILED) for line in child.stdout)
            if failed:
                return 1
            status = child.wait()
            return None if late.is_set() else status
        finally:
            clock.cancel()
            end_group(child)


def take_cores(cores, job, n_jobs):
    """This thread and what it starts run on two of the cores, or on the job's share of more: the other jobs slow it little,
    and the library makes few threads."""
    n, first = max(2, len(cores) // n_jobs), job * len(cores) // n_jobs
    if n_jobs > 1:
        os.sched_setaffinity(0, {cores[(first + i) % len(cores)] for i in range(n)})


class Build:
    """A copy of the tree with a build of its own: nothing outside `folder` is written."""

    def __init__(self, root, folder, is_sanitized=False, takes_full=False, notes_reach=False):
        self.root, self.folder, self.is_sanitized, self.takes_full, self.notes_reach = root, folder, is_sanitized, takes_full, notes_reach
        self.tree, self.build, self.scratch = folder / "tree", folder / "build", folder / "scratch"
        home = pathlib.Path.home()
        python = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "multidispatch-tests" / "venv" / "bin" / "python"
        self.env = {**({"TEST_PYTHON": str(python)} if python.exists() else {}), **os.environ, "CCACHE_NOHASHDIR": "1", "MD_CACHE_DIR": "", "MD_RATES": "20000,12000,60000,60000,2000", "MALLOC_PERTURB_": "85", "MD_LOG": "warn",
                    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1", "UBSAN_OPTIONS": "halt_on_error=1",
                    **dict.fromkeys(HOMES, str(self.scratch))}
        self.site = None
        self.build_env = {**self.env, "HOME": str(home), "CCACHE_DIR": os.environ.get("CCACHE_DIR", ""),
                          "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(home / ".cache"))}
        if not self.build_env["CCACHE_DIR"]:
            del self.build_env["CCACHE_DIR"]

    def use_kept_kernels(self, folder):
        """Tests compile by the compiler that keeps what it made (tests/support/cc), of all jobs in one folder: most faults
        change no kernel."""
        wrapper = self.build / "tests" / "support" / "cc"
        if (self.tree / "tests" / "support" / "cc").is_dir():
            self.make(["tests/support/cc/cc"])
            self.env |= {"PATH": f"{wrapper}:{os.environ.get('PATH', '/usr/bin:/bin')}", "TEST_CC_KEPT": str(folder), "TEST_CC_OPTIMIZE": "-Og"}

    def build_for_reach(self):
        """Sets up compilers so that each block notes that it ran (reach/reach.c)."""
        library = self.folder / "libreach.so"
        done = self.command("cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(REACH / "reach.c"), "-ldl")
        if done.returncode != 0:
            raise Broken(done.stderr)
        self.build_env.pop("CCACHE_NOHASHDIR", None)  # names of files are asked of the programs
        self.build_env |= {"CFLAGS": f"{os.environ.get('CFLAGS', '')} {FLAGS}",
                           "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} -Wl,--build-id -L{self.folder} -lreach -Wl,-rpath,{self.folder}"}

    def command(self, *words):
        return subprocess.run(words, env=self.build_env, capture_output=True, text=True, errors="replace")

    def copy_tree(self):
        """Tracked and new files; those that are the same keep their times, so that little is built again."""
        listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=self.root, capture_output=True, text=True)
        if listed.returncode != 0:
            raise Broken(f"{self.root} is no git repository")
        names = {n for n in listed.stdout.split("\0") if n and (self.root / n).is_file()}
        for old in [p for p in self.tree.rglob("*") if p.is_file()] if self.tree.exists() else []:
            if str(old.relative_to(self.tree)) not in names:
                old.unlink()
        for name in names:
            source, copy = self.root / name, self.tree / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
                os.utime(copy)

    def copy_build(self, other):
        """Takes the tree and the build of another with their times; the paths in files of the build become this one's.
        Programs of tests are the same files: linkers write new ones. So little is written, whatever the number of jobs."""
        def copy(source, to):
            is_program = source.startswith(str(other.build / "tests")) and "." not in os.path.basename(source)
            return os.link(source, to) if is_program else shutil.copy2(source, to)
        for name in ("tree", "build"):
            shutil.copytree(other.folder / name, self.folder / name, symlinks=True, copy_function=copy)
        for file in self.build.rglob("*"):
            if file.suffix in (".ninja", ".json") and file.is_file():
                times, text = file.stat(), file.read_text(encoding="utf-8")
                file.write_text(text.replace(str(other.folder) + "/", str(self.folder) + "/"), encoding="utf-8")
                os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def prepare(self, like=None, is_whole=False):
        """Copies the tree and sets up the build. like: a build to begin with; is_whole: all of it is made at once."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        if self.notes_reach:
            self.build_for_reach()
        if like and not (self.build / "build.ninja").exists():
            self.copy_build(like)
        self.copy_tree()
        if not (self.build / "build.ninja").exists():
            shutil.rmtree(self.build, ignore_errors=True)
            options = ["-Ddebug=false", "-Doptimization=2", "-Dwerror=false"]  # objects are compared: no lines in them
            if self.is_sanitized:
                options += ["-Doptimization=1", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
            if self.notes_reach:
                options.append("-Doptimization=g")
            done = self.command("meson", "setup", *options, str(self.build), str(self.tree))
            if done.returncode != 0:
                raise Broken(done.stdout + done.stderr)
        self.make(["build.ninja"])
        if is_whole:
            self.make([])
        self.tests = dict(self.by_file(self.named(self.introspect("tests"))))
        self.targets = {t["id"]: t for t in self.introspect("targets")}
        self.objects = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8")):
            path = pathlib.Path(os.path.normpath(pathlib.Path(entry["directory"]) / entry["file"]))
            if path.is_relative_to(self.tree / "src"):
                self.objects.setdefault(str(path.relative_to(self.tree)), []).append(entry["output"])

    @staticmethod
    def named(tests):
        """Tests by name; two of one name by suite:name."""
        shared = {name for name, n in collections.Counter(t["name"] for t in tests).items() if n > 1}
        return {t["suite"][0].split(":")[-1] + ":" + t["name"] if t["name"] in shared else t["name"]: t for t in tests}

    def by_file(self, tests):
        """Tests whose command is tests/python/run.py, file by file: together they take minutes."""
        run = self.tree / "tests" / "python" / "run.py"
        found = [ast.literal_eval(node.value) for node in ast.parse(run.read_text(encoding="utf-8")).body
                 if isinstance(node, ast.Assign) and node.targets[0].id == "GROUPS"] if run.exists() else []
        groups = found[0] if found else {}
        for name, test in tests.items():
            patterns = groups.get(test["cmd"][-1], ("", []))[1] if str(run) in map(os.path.normpath, test["cmd"]) else []
            files = sorted({f.name for p in patterns for f in run.parent.glob(p)})
            for file in files:
                yield f"{name}:{file}", {**test, "cmd": [*test["cmd"], file]}
            if not files:
                yield name, test

    def introspect(self, what):
        return json.loads((self.build / "meson-info" / f"intro-{what}.json").read_text(encoding="utf-8"))

    def make(self, files):
        done = self.command("ninja", "-C", str(self.build), *files)
        if done.returncode != 0:
            raise Broken((done.stdout + done.stderr)[-6000:])

    def make_objects(self, path):
        """The object files of a source, as bytes."""
        files = self.objects.get(path, [])
        if files:
            self.make(files)
        return [(self.build / f).read_bytes() for f in files]

    def write(self, path, text):
        """The time must differ from that of the object file, however quick the machine is."""
        file = self.tree / path
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(time.time_ns(), time.time_ns()))

    def tests_of(self, folder):
        """Names of the tests of a folder of src in two stages: its own, and what is asked if those let a fault through."""
        own = self.matching(TESTS_OF.get(folder, [folder]))
        return own, [n for n in self.matching(THEN.get(folder, [])) if n not in own]

    def matching(self, wanted):
        wanted = set(wanted)
        return [n for n, t in self.tests.items() if (self.takes_full or "full" not in self.suites(t)) and
                ({n, t["name"]} | self.suites(t)) & wanted]

    @staticmethod
    def suites(test):
        return {s.split(":")[-1] for s in test["suite"]}

    @staticmethod
    def is_called_as(test, path):
        """True if the name of the source, or its first word, is a word of the test's: chain_few.c and test_chain."""
        words, stem = re.split(r"[_:.]", test), pathlib.PurePath(path).stem
        asked = PYTHON_ASKED.get(stem) if path.endswith(".py") else None
        return f"_{stem}_" in f"_{'_'.join(words)}_" or stem.split("_")[0] in words or bool(asked and asked in test)

    def is_kin(self, test, path):
        """True if the test's sources lie in the room of `tests` that is called as the source's; of Python: see PYTHON_KIN."""
        if ":" in test and path.startswith("src/python/"):
            words = [word for part in pathlib.PurePath(path).with_suffix("").parts[2:] for word in (part, PYTHON_KIN.get(part))]
            return any(word and word in test.split(":")[1] for word in words)
        room = os.path.dirname(path).replace("src/", "tests/", 1)
        files = [f for d in self.tests[test]["depends"] for part in self.targets[d]["target_sources"] for f in part.get("sources", [])]
        return any(os.path.dirname(os.path.relpath(f, self.tree)) == room for f in files)

    def put_into_site(self):
        """Where tests of the Python package find it: installed once, then what a fault changed."""
        if not any(self.build.glob("src/python/_core*.so")):
            return
        if not self.site:
            done = self.command("meson", "install", "-C", str(self.build), "--no-rebuild", "--tags", "python-runtime", "--destdir",
                                str(self.folder / "installed"))
            found = [p.parent.parent for p in (self.folder / "installed").rglob("multidispatch/__init__.py")]
            if done.returncode != 0 or not found:
                raise Broken(done.stdout + done.stderr)
            self.site = found[0]
        sources = self.tree / "src" / "python" / "multidispatch"
        for source in [*sources.rglob("*.py"), *(self.build / "src" / "python").glob("_core*.so")]:
            copy = self.site / "multidispatch" / (source.relative_to(sources) if source.suffix == ".py" else source.name)
            if not copy.exists() or copy.stat().st_mtime_ns != source.stat().st_mtime_ns:
                shutil.copy2(source, copy)

    def command_of(self, name, env):
        """The command of a test; of a file of Python also FILE::CASE,CASE, which ends at the first case that fails."""
        name, _, cases = name.partition("::")
        command = self.tests[name]["cmd"]
        if ":" in name and command[-1].endswith(".py"):
            self.put_into_site()
            env |= {"TEST_SITE": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}
            command = [*command[:-1], f"{command[-1]}::{'-f,' if cases else ''}{cases}"]
        return command

    def files_of(self, name):
        """What a test needs to be built."""
        return sorted({os.path.relpath(f, self.build) for d in self.tests[name.partition("::")[0]]["depends"] for f in self.targets[d]["filename"]})

    def run(self, name, seconds, scratch=None, more=None, is_made=False):
        """What came of a test, and how long it took, without its building; is_made: nothing is to be built."""
        test, scratch = self.tests[name.partition("::")[0]], scratch or self.scratch
        if self.files_of(name) and not is_made:
            self.make(self.files_of(name))
        env = {**self.env, **test["env"], **dict.fromkeys(HOMES, str(scratch)), **(more or {})}
        command = self.command_of(name, env)
        started = time.monotonic()
        status = run_limited(with_limits(command, self.is_sanitized), env, test["workdir"] or str(self.build), seconds)
        spent = time.monotonic() - started
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True, exist_ok=True)
        return (HUNG if status is None else PASSED if status == 0 else SKIPPED if status == EXIT_SKIPPED else FAILED), spent


class Times:
    """How long tests take in the tree as it is; those that fail there, are skipped or take too long are not used."""

    def __init__(self, file, key, slow, log=None):
        self.file, self.key, self.slow, self.lock = file, key, slow, threading.Lock()
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        self.of = kept.get("times", {}) if kept.get("key") == key else {}
        self.logged = self.read_log(log) if log else {}

    @staticmethod
    def read_log(log):
        """Seconds of the tests in a testlog.json of Meson, by name and by suite:name; None where a test did not pass."""
        found = {}
        for entry in map(json.loads, pathlib.Path(log).read_text(encoding="utf-8").splitlines()):
            suites, name = entry["name"].rsplit(" / ", 1) if " / " in entry["name"] else ("", entry["name"])
            spent = entry["duration"] if entry["result"] == "OK" else None
            found |= {key: spent for key in (name, *(f"{s}:{name}" for s in suites.split(":")[-1].split("+")))}
        return found

    def measure(self, build, name, say):
        if name in self.of:
            return
        logged = self.logged.get(name, -1)
        result, spent = build.run(name, self.slow) if logged == -1 else (SKIPPED, 0) if logged is None else (PASSED, logged)
        self.keep(name, spent if result == PASSED and spent <= self.slow else None)
        if self.of[name] is None:
            say(f"{name} is not used: it {'takes longer than ' + str(self.slow) + ' s' if result in (HUNG, PASSED) else 'was ' + result}")

    def keep(self, name, spent):
        with self.lock:
            self.of[name] = spent
            self.file.write_text(json.dumps({"key": self.key, "times": self.of}), encoding="utf-8")

    def in_order(self, build, stages, path, first):
        """The usable tests: stage by stage those that caught a fault of this file or are called as it is, those of its room,
        and the broad ones; then the others. In both the quick ones come first, by speed."""
        for names in stages:
            usable = {n: self.of[n] for n in names if self.of.get(n) is not None}
            near = {n for n in usable if n in first or build.is_called_as(n, path) or
                    (usable[n] <= QUICK and (n in BROAD or build.is_kin(n, path)))}
            yield from sorted(usable, key=lambda n: (n not in near, usable[n] > QUICK, n not in first, usable[n]))

    def in_order_by_reach(self, build, stages, path, first, reached, unsure):
        """(tests, of Python's files those cases that are reached; seconds): near ones first, as above, by speed. Long files are
        asked twice: a few cases, and the rest. unsure: tests of which nobody knows what they reach."""
        cases, found = collections.defaultdict(list), []
        for name in reached | unsure:
            file, _, case = name.partition("::")
            if self.of.get(name) is not None and file in build.tests:
                cases[file].append((self.of[name], case))
        for file, known in cases.items():
            known = sorted(k for k in known if k[1])
            if not known:
                found.append((file, self.of[file], file))
            n, sums = 0, [sum(s for s, _ in known[:i + 1]) for i in range(len(known))]
            for most in (FEW_CASES, 1e9):
                part = [k for k, s in zip(known, sums) if s <= most or k is known[0]][n:]
                n += len(part)
                if part:
                    found.append((f"{file}::{','.join(c for _, c in part)}", IMPORTS + sum(s for s, _ in part), file))

        def cost(one):
            unit, spent, file = one
            is_near = unit in first or file in first or file in BROAD or build.is_called_as(file, path) or build.is_kin(file, path)
            return (LINK + spent) * (0.2 if is_near else 0.5 if file in stages[0] else 1.0) * (3.0 if file in unsure else 1.0)
        for unit, spent, _ in sorted(found, key=cost):
            self.of.setdefault(unit, spent)
            yield unit

    def limit(self, name):
        return max(6.0, 20.0 * (self.of[name] or 0))
