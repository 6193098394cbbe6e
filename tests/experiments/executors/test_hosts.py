"""Processes that train one model together, each with a device of its own, on JAX's own runtime."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.executors.registry import Options, open_executor
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.hosts import Place, agreed, join, leads
from tests.experiments.executors.commands import records_of, result_of, running, two_groups, until

SHORT = ("train.batch=4", "train.steps=40", "train.checkpoint_every=10")
ONE_MODEL = ("seeds=[0]", 'only=["gated"]', *SHORT, "--cpus", "1", "--json")


@contextmanager
def together(processes: int, *words: str | Path) -> Iterator[list[subprocess.Popen[str]]]:
    """A command in each of several processes, of which the first one comes first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    place = ("--coordinator", where, "--processes", str(processes), "--process")
    with ExitStack() as stack:
        yield [stack.enter_context(running(*words, *place, str(number))) for number in range(processes)]


@pytest.mark.slow
def test_a_model_of_four_processes_is_that_of_one_and_goes_on_in_two(tmp_path: Path) -> None:
    """A process that does not lead is asked to stop, and all of them do at one step."""
    words = ("run", two_groups(tmp_path), *ONE_MODEL, "--results")
    with running(*words, tmp_path / "one") as alone:
        result_of(alone)
    results = tmp_path / "many"
    with together(4, *words, results) as processes:
        until(processes[0], lambda: list(results.glob("mine/.group-*/manifest-10.json")))
        processes[2].send_signal(signal.SIGTERM)
        said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [130] * 4
    assert len({line for text in said for line in text.splitlines() if "stopped at step" in line}) == 1
    with together(2, *words, results) as processes:
        outcome, _ = result_of(processes[0])
        assert processes[1].communicate(timeout=60)[0] == ""
    assert outcome["trained"] == 1
    ((key, ours),) = records_of(results).items()
    theirs = records_of(tmp_path / "one")[key]
    assert (ours.device["count"], theirs.device["count"]) == (2, 1)
    assert [worker.first_step > 10 for worker in ours.workers] == [False, True]
    for entry, other in zip(ours.measurements, theirs.measurements, strict=True):
        assert (entry.quantity, entry.dims) == (other.quantity, other.dims)
        assert entry.value == pytest.approx(other.value, rel=1e-5, abs=1e-5), entry


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_others_with_one_line(tmp_path: Path) -> None:
    words = ("run", two_groups(tmp_path), "seeds=[0]", 'only=["gated"]', "train.batch=4", "train.steps=100000")
    with together(2, *words, "train.checkpoint_every=10", "--cpus", "1", "--results", tmp_path / "results") as processes:
        until(processes[0], lambda: list(tmp_path.glob("results/mine/.group-*/manifest-10.json")))
        processes[1].kill()
        said = processes[0].communicate(timeout=60)[1]
    assert processes[0].returncode == 2, said
    assert "leadline: training together failed (" in said and "run the same command again" in said


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), (("--tracker", "none"), 2)])
def test_all_processes_end_where_nothing_is_trained(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    with together(2, "run", two_groups(tmp_path), *words, "--results", tmp_path / "results") as processes:
        said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [code, code], said


def test_a_process_alone_leads_and_agrees_with_itself() -> None:
    assert leads()
    assert agreed({"step": 3}) == {"step": 3}


@pytest.mark.parametrize(
    "place", [Place("host:1"), Place("host:1", 2), Place("host:1", 2, 2), Place("host", 2, 0), Place("host:99999", 2, 0)]
)
def test_a_process_has_to_know_its_place(place: tuple[Any, ...]) -> None:
    with pytest.raises(UserError, match=r"--coordinator host.*: say HOST:PORT .* --processes N and --process 0"):
        join(Place(*place))


def test_auto_needs_somebody_who_names_the_processes(tmp_path: Path) -> None:
    with running("run", two_groups(tmp_path), "--coordinator", "auto") as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert "--coordinator auto: the processes cannot be connected (coordinator_address should be defined" in said


def test_an_engine_does_not_schedule_processes_that_run_together(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--executor ray: .*leave out --coordinator"):
        open_executor(Options("ray", 60.0, together=True), tmp_path)
