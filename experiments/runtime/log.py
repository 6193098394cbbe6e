"""The log of a results folder: one line an event, appended."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

LOG = "leadline.log"  # in a results folder


class Log:
    """Appends lines to a file, each with the time in UTC and the number of the process.

    A line is one write at the end of the file, so that the lines of two runs at once stay whole. A file that cannot be written
    is said once, and lines are dropped from then on: a log never stops a run.

    Args:
        path: the file; its folder is made with the first line.
        tell: gets one line when the file cannot be written.
    """

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._path, self._tell = path, tell
        self._broken = self.begun = False

    def write(self, event: str) -> None:
        """Appends an event; its line breaks become blanks."""
        if self._broken:
            return
        line = f"{datetime.now(UTC).isoformat(timespec='seconds')} [{os.getpid()}] {' '.join(event.split())}\n".encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                written = os.write(file, line)
            finally:
                os.close(file)
            if written < len(line):
                raise OSError("the disk is full")
            self.begun = True
        except OSError as error:
            self._broken = True
            self._tell(f"{self._path}: {error.strerror or error}; this run goes on without a log")
