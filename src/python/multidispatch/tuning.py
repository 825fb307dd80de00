"""Tuning by any concurrent.futures.Executor: pieces go out as text, wisdom comes back."""

import collections
import concurrent.futures
import json
import os
import sys
import time

from . import _BOUNDS, _NUMERIC, _TUNE, ArgumentError, MdError, Op, _core, _number, _sizes_text, op as make_op

_MOST_POINTS = 16  # of an op in statistics: those that took most time, as mdctl tune --from-stats
_PATIENCE = 120.0  # seconds, at least, in which some piece has to come back


def tune(ops, executor=None, *, device="host", dtype="f32", hints=None, rigor="measure", budget_ms=0.0, builds=0,
         limit=None, patience=None, tries=3, progress=None):
    """Times kernels of ops, in pieces that several processes or machines share, and keeps the fastest configs.

    - ``ops``: an Op, a formula, the name of a named op, statistics (``md.stats()``, or the path of what MD_STATS wrote
      as JSON), or a list of these. Undeclared tensors have ``dtype``; ``hints`` stands in for those of the ops.
    - ``executor``: any concurrent.futures.Executor whose workers can import this package, or a function that makes one
      and is asked for another when that breaks. None: this process, piece after piece.
    - ``device``: of the workers, and of this process: "host", "cuda", "cuda:N". Each worker measures on its own.
    - ``budget_ms``: for each op; 0: as long as it takes. ``builds``: configs of a point; 0: 12.
    - ``limit``: seconds after which this returns whatever is missing. ``patience``: seconds without any result after
      which what is outstanding is handed out again. ``tries``: how often a piece may be lost or fail.
    - ``progress(done, all, seconds)``: called after each piece, with the predicted rest; True prints a line on stderr.

    Results are kept in this process's store as they come; ops made from then on use them. Workers keep their own, too, so
    a piece that was lost after it was tuned is not tuned again. Nothing waits for all workers: there is no collective.
    Returns a dict: "pieces", "done", "failed" (digest of the piece: why), "unfinished", "again" (pieces handed out
    again), "taken" (results that were new or better) and "seconds".
    """
    if executor is not None and not hasattr(executor, "submit") and not callable(executor):
        raise ArgumentError(f"executor {executor!r} has no submit(), and makes none that has")
    if tries < 1 or (limit is not None and limit < 0):
        raise ArgumentError(f"tries={tries}, limit={limit}: expected 1 or more, and 0 or more seconds")
    texts = {}
    for target in _targets(ops, dtype, hints):
        lines = _core.tune_pieces(device, *target[:-1], _number(_TUNE, "rigor", rigor), budget_ms, builds, target[-1])
        texts.update((json.loads(line)["piece"], line) for line in lines.splitlines())
    run = _Run([_Piece(text) for text in texts.values()], device, limit, patience, tries, progress)
    if executor is None:
        run.here()
    else:
        run.by(executor)
    return run.report()


# ---- What is tuned

def _targets(ops, dtype, hints):
    """(formula, sizes, hints, bounds, numeric, tf32, indices) of each op."""
    if isinstance(ops, (str, Op, os.PathLike)) or (isinstance(ops, dict) and "ops" in ops):
        ops = [ops]
    for one in ops:
        if isinstance(one, os.PathLike) or (isinstance(one, str) and one.endswith(".json")):
            with open(one, encoding="utf-8") as file:
                one = json.load(file)
        if isinstance(one, dict):
            yield from _of_stats(one, hints)
            continue
        one = make_op(one) if isinstance(one, str) else one
        if not isinstance(one, Op):
            raise ArgumentError(f"{one!r}: expected an Op, a formula, or statistics")
        given = one._options
        yield (one._typed(one._dtypes(dtype))[0], _sizes_text(given.get("static")), hints or given.get("hints"),
               _number(_BOUNDS, "bounds", given.get("bounds", "report")),
               _number(_NUMERIC, "numeric", given.get("numeric")), given.get("tf32", False), None)


def _of_stats(stats, hints):
    for one in stats.get("ops", ()):
        met = sorted((row for row in stats.get("shapes", ()) if row.get("op") == one.get("op") and "=" in row["shape"]),
                     key=lambda row: -(row.get("total_us") or 0.0))[:_MOST_POINTS]
        points = " ".join("(" + row["shape"].split(" strided")[0].replace(" ", ",") + ")" for row in met)
        samples = [sample.get("values", ()) for sample in one.get("indices") or ()]
        if one.get("formula") and points:
            yield (one["formula"], None, hints or points, 0, 0, bool(one.get("tf32")),
                   max(samples, key=len, default=None))


# ---- Pieces, and what becomes of them

class _Piece:
    def __init__(self, text):
        read = json.loads(text)
        self.text, self.digest, self.ms = text, read["piece"], read["ms"]
        self.tries, self.is_done, self.problem = 0, False, None


def _work(text, device):
    """In a worker: the wisdom of one piece."""
    return _core.tune_piece(device, text)


class _Run:
    def __init__(self, pieces, device, limit, patience, tries, progress):
        self.pieces = sorted(pieces, key=lambda piece: (-piece.ms, piece.digest))
        self.device, self.tries, self.progress = device, tries, progress
        self.start = time.monotonic()
        self.deadline = None if limit is None else self.start + limit
        longest = max((piece.ms for piece in pieces), default=0.0)
        self.patience = max(_PATIENCE, longest / 50.0) if patience is None else patience
        self.again, self.taken = 0, 0

    def left(self):
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def report(self):
        failed = {piece.digest: piece.problem for piece in self.pieces if not piece.is_done and piece.tries >= self.tries}
        done = sum(piece.is_done for piece in self.pieces)
        return {"pieces": len(self.pieces), "done": done, "failed": failed,
                "unfinished": len(self.pieces) - done - len(failed), "again": self.again, "taken": self.taken,
                "seconds": time.monotonic() - self.start}

    def tell(self):
        done = sum(piece.ms for piece in self.pieces if piece.is_done)
        rest = sum(piece.ms for piece in self.pieces) - done
        n = sum(piece.is_done for piece in self.pieces)
        seconds = (time.monotonic() - self.start) * rest / done if done else float("nan")
        if self.progress is True:
            print(f"tuned {n} of {len(self.pieces)} pieces, {seconds:.0f} s to go", file=sys.stderr)
        elif self.progress:
            self.progress(n, len(self.pieces), seconds)

    def take(self, piece, result):
        """Keeps a result. False where it is none, or that of another piece."""
        if piece.is_done:
            return True  # it was handed out twice, and both came back
        if not isinstance(result, str) or not result.startswith(f"# piece {piece.digest}\n") \
                or not result.endswith(f"# end {piece.digest}\n"):
            piece.problem = f"the executor gave {type(result).__name__} {str(result)[:60]!r} back, not this piece's wisdom"
            return False
        try:
            count = _core.wisdom_import(self.device, result)
        except MdError as error:
            piece.problem = str(error)
            return False
        self.taken += count["taken"]
        piece.is_done = True
        self.tell()
        return True

    def here(self):
        for piece in self.pieces:
            while not piece.is_done and piece.tries < self.tries and self.left() > 0.0:
                piece.tries += 1
                try:
                    self.take(piece, _work(piece.text, self.device))
                except MdError as error:
                    piece.problem = str(error)

    def by(self, executor):
        hands = _Hands(self, executor)
        try:
            hands.run()
        finally:
            hands.close()


class _Hands:
    """Hands pieces to an executor and takes what comes back."""

    def __init__(self, run, executor):
        self.run_, self.out = run, {}  # future: piece
        self.make = None if hasattr(executor, "submit") else executor
        self.pool = executor if self.make is None else self.make()
        self.is_own = self.make is not None
        self.queue = collections.deque(run.pieces)
        self.breaks = 0  # of executors, one after the other, without a result between

    def run(self):
        heard = time.monotonic()
        while (self.queue or self.out) and self.run_.left() > 0.0:
            if not self.submit():
                return
            quiet = self.run_.patience - (time.monotonic() - heard)
            seconds = min(self.run_.left(), quiet)
            done = concurrent.futures.wait(self.out, None if seconds == float("inf") else max(seconds, 0.0),
                                           concurrent.futures.FIRST_COMPLETED).done
            if done:
                heard = time.monotonic()
                self.take(done)
            elif quiet <= 0.0:
                heard = time.monotonic()
                self.hand_out_again(list(self.out.values()), "no result came back in time")

    def submit(self):
        """False where the executor is broken and there is no other."""
        while self.queue:
            try:
                self.out[self.pool.submit(_work, self.queue[0].text, self.run_.device)] = self.queue[0]
                self.queue.popleft()
            except (concurrent.futures.BrokenExecutor, RuntimeError) as error:
                if not self.replace(error):
                    return False
        return True

    def take(self, done):
        broken = None
        for future in done:
            piece = self.out.pop(future)
            error = concurrent.futures.CancelledError("it was cancelled") if future.cancelled() else future.exception()
            if isinstance(error, concurrent.futures.BrokenExecutor):
                broken = error
                self.out[future] = piece
            elif error is not None:
                self.hand_out_again([piece], f"{type(error).__name__}: {error}")
            elif self.run_.take(piece, future.result()):
                self.breaks = 0
            else:
                self.hand_out_again([piece], piece.problem)
        if broken is not None:
            self.replace(broken)
        for future in [future for future, piece in self.out.items() if piece.is_done]:  # what was handed out twice
            future.cancel()
            del self.out[future]

    def hand_out_again(self, pieces, problem):
        """Each counts as one try of the piece; after the last it has failed."""
        for piece in pieces:
            piece.tries += 1
            piece.problem = problem
            if not piece.is_done and piece.tries < self.run_.tries and piece not in self.queue:
                self.run_.again += 1
                self.queue.append(piece)
            elif not piece.is_done and piece.tries >= self.run_.tries:
                for future in [future for future, other in self.out.items() if other is piece]:
                    future.cancel()
                    del self.out[future]

    def replace(self, error):
        """Another executor for one that broke, as a process pool does when a worker is killed. Which piece did it is not
        known: those that were out longest go to the end, and none counts a try unless nothing came back between."""
        lost = [piece for piece in dict.fromkeys(self.out.values()) if not piece.is_done]
        self.out.clear()
        self.breaks += 1
        for piece in lost:
            piece.problem = f"{type(error).__name__}: {error}"
            piece.tries += self.breaks >= self.run_.tries
        lost = [piece for piece in lost if piece.tries < self.run_.tries]
        self.run_.again += len(lost)
        suspects = len(lost) if not self.queue else min(len(lost), getattr(self.pool, "_max_workers", 1))
        self.queue = collections.deque([*lost[suspects:], *self.queue, *lost[:suspects]])
        pool = self.make() if self.make is not None else _another(self.pool)
        if pool is None:
            return False
        self.close()
        self.pool, self.is_own = pool, True
        return True

    def close(self):
        """Ends executors that were made here, and their processes, which a kernel that does not end would keep."""
        for future in self.out:
            future.cancel()
        if not self.is_own:
            return
        processes = list((getattr(self.pool, "_processes", None) or {}).values())
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def _another(pool):
    """A process pool like one that broke; None for other executors."""
    if type(pool) is not concurrent.futures.ProcessPoolExecutor:
        return None
    return concurrent.futures.ProcessPoolExecutor(pool._max_workers, mp_context=pool._mp_context,
                                                  initializer=pool._initializer, initargs=pool._initargs)
