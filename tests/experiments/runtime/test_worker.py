"""Processes of one results folder: claims that one of them has, hearts that beat, and what the dead leave."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.experiments.runtime import process as processes
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.runtime.worker import CLAIMS, Lost, Worker
from leadline.experiments.runtime.worker_files import WORKERS, is_at_work, owner_of, workers_of

# Claims the places that are named, and says which it has.
CLAIM = """
import sys, time
from pathlib import Path
from leadline.experiments.runtime.worker import Worker
with Worker(Path(sys.argv[1])) as worker:
    print("ready", flush=True)
    sys.stdin.readline()
    print(*(name for name in sys.argv[2:] if worker.claim([Path(sys.argv[1], name)])), flush=True)
    sys.stdin.readline()
"""


class Clock:
    """Seconds that pass when it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / CLAIMS / "softmax"


def _other(results: Path, *names: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CLAIM, str(results), *names]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def _told(process: subprocess.Popen[str], line: str = "\n") -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has claimed the place."""
    with _other(tmp_path, f"{CLAIMS}/softmax") as process:
        assert _told(process) == f"{CLAIMS}/softmax\n"
        yield process
        process.kill()


def test_of_many_processes_each_place_has_one(tmp_path: Path) -> None:
    names = [f"{CLAIMS}/{number}" for number in range(40)]
    started = [_other(tmp_path, *names) for _ in range(3)]
    for process in started:  # all begin before the first has answered
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    had = [process.stdout.readline().split() for process in started if process.stdout is not None]
    assert sorted(name for of_process in had for name in of_process) == sorted(names)
    for process in started:
        process.communicate("\n", timeout=30)
    with Worker(tmp_path) as worker:  # they have ended without releasing anything
        assert worker.claim([tmp_path / name for name in names])


def test_a_place_is_free_once_it_is_released(tmp_path: Path, place: Path) -> None:
    with Worker(tmp_path) as one, Worker(tmp_path) as two:
        claim = one.claim([place])
        assert claim is not None and owner_of(place) == one.id
        claim.check()
        assert two.claim([place]) is None and one.claim([place]) is None
        assert not two.is_free([place]) and is_at_work(tmp_path, place)
        claim.release()
        assert owner_of(place) is None and two.is_free([place]) and not is_at_work(tmp_path, place)
        assert two.claim([place]) is not None


def test_all_or_nothing_is_claimed(tmp_path: Path, place: Path) -> None:
    with Worker(tmp_path) as one, Worker(tmp_path) as two:
        assert one.claim([place.with_name("b")])
        assert two.claim([place.with_name(name) for name in "abc"]) is None
        assert one.claim([place.with_name("a"), place.with_name("c")])


def test_what_a_killed_process_held_is_free_at_once_on_its_machine(
    tmp_path: Path, place: Path, other: subprocess.Popen[str]
) -> None:
    with Worker(tmp_path) as worker:
        assert worker.claim([place]) is None
        assert worker.holder([place]).endswith(f", process {other.pid}")
        other.kill()
        other.wait()
        assert worker.claim([place])


def test_a_process_elsewhere_is_dead_when_nothing_was_heard_of_it_for_too_long(tmp_path: Path, place: Path) -> None:
    clock = Clock()
    with Worker(tmp_path, expiry=10.0, clock=clock) as worker:
        elsewhere = Worker(tmp_path)
        elsewhere.owner["machine"] = "another"
        elsewhere.owner["pid"] = 0
        elsewhere.beat()
        claim = elsewhere.claim([place])
        for clock.now in (0.0, 9.0):
            assert worker.claim([place]) is None
        elsewhere.beat()
        for clock.now in (11.0, 20.0):
            assert worker.claim([place]) is None
        clock.now = 22.0
        assert worker.claim([place]) and claim is not None
        with pytest.raises(Lost, match=f"softmax: left to .*, process {os.getpid()}, because this process was not heard of"):
            claim.check()
        claim.release()
        assert owner_of(place) == worker.id


def test_a_process_that_cannot_write_its_file_is_heard_of(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk refuses the file, and not the time of the file that is there."""

    def refuse() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Worker(tmp_path, expiry=0.5) as other, Worker(tmp_path, expiry=0.5) as worker:
        other.owner["machine"] = "another"
        other.beat()
        claim = other.claim([place])
        monkeypatch.setattr(other, "beat", refuse)
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert worker.claim([place]) is None
            time.sleep(0.05)
        assert claim is not None
        claim.check()


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{}", b'{"ended": false}', b"\xff"])
def test_a_damaged_file_says_nothing_of_its_process(tmp_path: Path, place: Path, data: bytes) -> None:
    clock = Clock()
    with Worker(tmp_path, expiry=10.0, clock=clock) as worker, Worker(tmp_path, expiry=1e6) as other:
        assert other.claim([place])
        (tmp_path / WORKERS / f"{other.id}.json").write_bytes(data)
        assert not worker.is_dead(other.id)
        assert worker.holder([place]) == "another process"
        assert not is_at_work(tmp_path, place)
        assert set(workers_of(tmp_path)) == {worker.id}
        clock.now = 11.0
        assert worker.claim([place])


def test_a_process_of_another_user_that_is_hidden_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(number: int, signal: int) -> None:  # noqa: ARG001
        raise PermissionError

    with Worker(tmp_path) as worker:
        owner = dict(worker.owner)
        monkeypatch.setattr(processes, "_ticks", lambda pid: "")  # noqa: ARG005
        assert not processes.alive(owner | {"pid": 2**22 + 1})
        monkeypatch.setattr(os, "kill", kill)
        assert processes.alive(owner)


def test_a_stopped_process_that_goes_on_has_lost_what_was_taken_over(
    tmp_path: Path, place: Path, other: subprocess.Popen[str]
) -> None:
    with Worker(tmp_path, expiry=0.3) as worker:
        other.send_signal(signal.SIGSTOP)
        with worker.alone(place, Interruption()):  # waits until the other one counts as dead
            other.send_signal(signal.SIGCONT)
            assert owner_of(place) == worker.id


def test_waiting_ends_when_it_is_asked_to(tmp_path: Path, place: Path, other: subprocess.Popen[str]) -> None:
    interruption = Interruption()
    interruption.requested = True
    reason = f"stopped while .*, process {other.pid} was at work"
    with Worker(tmp_path) as worker, pytest.raises(Interrupted, match=reason), worker.alone(place, interruption):
        pass


def test_the_file_of_a_process_says_what_it_does_until_it_has_ended(tmp_path: Path) -> None:
    with Worker(tmp_path) as worker:
        worker.groups = lambda: [{"state": "running"}]
        worker.beat()
        content = workers_of(tmp_path)[worker.id]
        assert (content["pid"], content["groups"], content["ended"]) == (os.getpid(), [{"state": "running"}], False)
    assert workers_of(tmp_path)[worker.id]["ended"]
    assert worker.is_dead(worker.id)


def test_what_the_dead_leave_is_removed_and_what_others_have_is_not(
    tmp_path: Path, place: Path, other: subprocess.Popen[str]
) -> None:
    dead = Worker(tmp_path)
    dead.owner["ticks"] = "of a process that had this number before"
    dead.beat()
    (tmp_path / WORKERS / f".{dead.id}.part").touch()
    assert dead.claim([tmp_path / "sinks" / CLAIMS / "learned"])
    with Worker(tmp_path) as worker:
        worker.tidy()
        kept = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
        owner = owner_of(place)
        assert kept == {f"{WORKERS}/{worker.id}.json", f"{WORKERS}/{owner}.json", f"{CLAIMS}/softmax/{owner}"}
        assert json.loads((tmp_path / WORKERS / f"{owner}.json").read_text())["pid"] == other.pid


def test_results_that_are_removed_end_the_run_and_are_not_waited_for(tmp_path: Path) -> None:
    results = tmp_path / "results"
    place = results / CLAIMS / "softmax"
    with (
        pytest.raises(UserError, match=r"results: removed while this run was at work in it; run it again"),
        Worker(results) as worker,
    ):
        claim = worker.claim([place])
        assert claim is not None
        shutil.rmtree(results)
        with pytest.raises(FileNotFoundError):
            claim.check()
        worker.claim([place])


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file: cannot write results \([^\n]*\); choose another folder with --results$"):
        Worker(tmp_path / "file").__enter__()
