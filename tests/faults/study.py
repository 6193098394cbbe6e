"""A tiny study, and commands on it in processes that are forked from this one, which has imported everything already.

JAX makes no device here: a process that has some cannot be forked.
"""

import mmap
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from leadline.experiments.cli import main as cli
from leadline.experiments.data import source
from leadline.experiments.data.text import tokenizers
from leadline.experiments.records.store import read_records
from leadline.experiments.runtime.cpu import TUNABLES
from leadline.experiments.studies import run
from leadline.experiments.training import claimed, loop, recording, saving
from tests.experiments.configured import write_config
from tests.experiments.training.runs import kept

STUDY = """
study = "mine"
seeds = [0, 1]
data = { kind = "text", corpus = ["corpus"], length = 16, held_out = 0.3, tokenizer = { kind = "bpe", vocabulary = 280 } }
model = { layers = 1, width = 8, heads = 2, hidden = 8, norm = "layer", position = { kind = "rope", base = 100.0 } }
train = { steps = 24, batch = 3, learning_rate = 1e-2, checkpoint_every = 4 }
tables = [{ title = "Losses", columns = ["loss", "sink_rate"] }]
measure = { every = 8, windows = 6, sink.length = 16 }
[arms.softmax]
[arms.learned]
model.sink = { kind = "learned" }
"""
# What a run does, and the functions in which it does it.
MOMENTS: Mapping[str, tuple[tuple[ModuleType, str], ...]] = {
    "caching tokens": ((source, "token_files"), (source, "trained_tokenizer"), (tokenizers, "save")),
    "compiling": ((loop, "compiled"),),
    "training": ((claimed, "train_group"),),
    "saving": ((saving.checkpoint, "save"),),
    "measuring": ((recording, "final_points"),),
    "recording": ((recording, "write_record"), (claimed, "remove")),
    "publishing": ((run, "report"),),
}
NAMES = ("starting", *MOMENTS)
# Programs of toy size need not be fast.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
# Names of files that differ from run to run, and stay: the file of each process, until the next run.
OF_PROCESSES = ".workers"
DRAWN = re.compile(r"(?<=/d/)[0-9a-f]{32}$")
TIMEOUT = 300.0  # s, of a machine that is busy


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or less the number of the signal; its lines on standard error; what it was doing."""

    code: int
    err: str
    moment: str
    seconds: float

    def mistake(self, *codes: int) -> str:
        """Why this is not an error of one line with one of these exit codes; empty where it is."""
        if self.code not in codes:
            return f"exit {self.code}: {self.err[-400:]}"
        if "Traceback" in self.err or "this is a defect" in self.err:
            return self.err[-400:]
        return ""


class Command:
    """The command line in a child, which is asked or killed while it works."""

    def __init__(self, err: Path, words: tuple[str, ...], before: Callable[[], object]) -> None:
        self._err, self._began = err, time.monotonic()
        self._moment = mmap.mmap(-1, 1)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                code = _worked(err, words, self._moment, before)
            finally:
                os._exit(code)

    @property
    def moment(self) -> str:
        return NAMES[self._moment[0]]

    def running(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def signal(self, number: int) -> None:
        """Sends a signal to the command; SIGKILL to its workers too."""
        os.killpg(self.pid, number) if number == signal.SIGKILL else os.kill(self.pid, number)

    def ended(self, within: float = TIMEOUT) -> Ended:
        """How it ends; it is killed where it does not in so many seconds."""
        end = time.monotonic() + within
        while self.running() and time.monotonic() < end:
            time.sleep(0.01)
        moment = self.moment
        if self.running():
            self.signal(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        text = self._err.read_text(encoding="utf-8", errors="replace") if self._err.exists() else ""
        return Ended(os.waitstatus_to_exitcode(status), text, moment, time.monotonic() - self._began)


def _worked(err: Path, words: tuple[str, ...], moment: mmap.mmap, before: Callable[[], object]) -> int:
    """The exit code of a command, in the child."""
    os.setpgid(0, 0)
    with err.open("wb") as file, Path(os.devnull).open("wb") as nothing:
        os.dup2(file.fileno(), 2)
        os.dup2(nothing.fileno(), 1)
    for number, places in enumerate(MOMENTS.values(), start=1):
        for module, name in places:
            setattr(module, name, _noted(getattr(module, name), moment, number))
    before()
    sys.argv = ["leadline", *words]
    try:
        cli.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 1


def _noted(function: Callable[..., Any], moment: mmap.mmap, number: int) -> Callable[..., Any]:
    def noted(*arguments: Any, **keywords: Any) -> Any:
        before, moment[0] = moment[0], number
        try:
            return function(*arguments, **keywords)
        finally:
            moment[0] = before

    return noted


def nothing() -> None:
    """What most commands need before they begin."""


class Workshop:
    """The study, what it leaves when nothing happens to it, and programs that are compiled already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.environ |= {TUNABLES: "", "XLA_FLAGS": QUICK}
        (folder / "corpus").mkdir()
        for number in range(20):
            text = "".join(f"Line {line} of document {number}.\n" for line in range(9))
            (folder / "corpus" / f"{number}.txt").write_text(text, encoding="utf-8")
        self.config = write_config(folder, STUDY, "mine.toml")

    def begin(
        self,
        results: Path,
        *words: str,
        programs: Path | None = None,
        before: Callable[[], object] = nothing,
        name: str = "run",
    ) -> Command:
        """`leadline run` of the study into a folder.

        Args:
            results: the folder.
            *words: overrides and options.
            programs: the folder of compiled programs, if not that of all.
            before: is called in the child.
            name: of its standard error, one for each of several at once.
        """

        def ready() -> None:
            keep_programs(programs or self.folder / "programs")
            before()

        return Command(results.with_suffix(f".{name}.err"), ("run", str(self.config), *words, "--results", str(results)), ready)

    @cached_property
    def _undisturbed(self) -> tuple[Path, float]:
        for name in ("first", "whole"):  # the programs of the second come from the cache, as those of others do
            ended = self.begin(self.folder / name).ended()
            if ended.code:
                raise RuntimeError(ended.err)
        return self.folder / "whole", ended.seconds

    @property
    def whole(self) -> Path:
        """The results of a run to which nothing happened."""
        return self._undisturbed[0]

    @property
    def seconds(self) -> float:
        """That it took."""
        return self._undisturbed[1]

    @cached_property
    def kept(self) -> dict[Any, Any]:
        return kept(self.whole)

    @cached_property
    def files(self) -> set[str]:
        return files_of(self.whole)

    def differs(self, results: Path) -> list[str]:
        """What is not as it was to be in results: records, files that are missing, files that should not be there."""
        _, notes = read_records(results)
        if notes:
            return notes
        recorded = kept(results)
        lines = [f"the record of {key} differs" for key in self.kept if recorded.get(key) != self.kept[key]]
        files = files_of(results)
        return [
            *lines,
            *(f"{name} is left" for name in files - self.files),
            *(f"{name} is gone" for name in self.files - files),
        ]

    def differs_so_far(self, results: Path) -> list[str]:
        """What is not as it was to be in results of a run that has not ended."""
        records, notes = read_records(results)
        recorded = kept(results) if records and not notes else {}
        return [*notes, *(f"the record of {key} differs" for key, value in recorded.items() if value != self.kept[key])]

    def goes_on(self, results: Path, programs: Path | None = None) -> list[str]:
        """Runs the study to its end; what differs then."""
        ended = self.begin(results, programs=programs).ended()
        return [f"the next run ended with {ended.code}: {ended.err[-400:]}"] if ended.code else self.differs(results)


def keep_programs(folder: Path | None) -> None:
    """All of them, where JAX will begin; None: where leadline keeps them."""
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_compilation_cache_dir", folder and str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def files_of(results: Path) -> set[str]:
    """The names of all files, without the names that Orbax draws."""
    files = (path.relative_to(results) for path in results.rglob("*") if not path.is_dir())
    return {DRAWN.sub("drawn", str(path)) for path in files if path.parts[0] != OF_PROCESSES}


def limit_memory(more: int) -> None:
    """MemoryError for what takes so many bytes more than there are now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
