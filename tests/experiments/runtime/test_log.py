"""The log of a results folder, and what it must not do."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.experiments.runtime.log import Log

LINES = 400
WRITER = """
import sys
from pathlib import Path
from leadline.experiments.runtime.log import Log
log = Log(Path(sys.argv[1]), print)
for number in range(int(sys.argv[2])):
    log.write(f"event {number} " + "x" * 200)
"""


def test_an_event_is_a_line_with_time_and_process(tmp_path: Path) -> None:
    path = tmp_path / "results" / "leadline.log"
    for event in ("began", "two\nlines"):
        Log(path, pytest.fail).write(event)
    began, lines = path.read_text().splitlines()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 \[{os.getpid()}\] began", began)
    assert lines.endswith("] two lines")


def test_lines_of_two_runs_at_once_stay_whole(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER, str(tmp_path / "leadline.log"), str(LINES)]
    runs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [run.communicate(timeout=60)[0] for run in runs] == ["", ""]
    numbers: dict[str, list[int]] = {}
    for line in (tmp_path / "leadline.log").read_text().splitlines():
        parts = re.fullmatch(r"\S+ \[(\d+)\] event (\d+) x{200}", line)
        assert parts, line
        numbers.setdefault(parts[1], []).append(int(parts[2]))
    assert list(numbers.values()) == [list(range(LINES))] * 2


def _no_folder(path: Path, patch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    path.parent.write_text("in the way")


def _a_folder_of_its_name(path: Path, patch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    path.mkdir(parents=True)


def _read_only(path: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    patch.setattr(os, "open", refuse)


def _full(path: Path, patch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(os, "write", refuse)


def _nearly_full(path: Path, patch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    write = os.write
    patch.setattr(os, "write", lambda file, data: write(file, data[:9]))


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        (_no_folder, "File exists"),
        (_a_folder_of_its_name, "Is a directory"),
        (_read_only, "Permission denied"),
        (_full, "No space left on device"),
        (_nearly_full, "the disk is full"),
    ],
)
def test_a_log_that_cannot_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: object, reason: str
) -> None:
    path, told = tmp_path / "results" / "leadline.log", list[str]()
    assert callable(obstacle)
    obstacle(path, monkeypatch)
    log = Log(path, told.append)
    for _ in range(3):
        log.write("an event")
    assert told == [f"{path}: {reason}; this run goes on without a log"]
