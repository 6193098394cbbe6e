"""Ctrl-C as a question that long work asks itself between steps."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from threading import Thread
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPING = "stopping at the next step that can be kept; a second signal ends at once"
SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


class Interrupted(Exception):  # noqa: N818  # it is no error
    """The work stopped where it was asked to, with everything kept; the text says how to go on."""


class Interruption:
    """While it is entered, the first of some signals sets `requested`, and a second one ends the process at once.

    A thread answers them: Python runs the handlers of signals in the main thread only, after the call that it is in, and a
    compilation is one call of many seconds.

    Args:
        tell: gets one line when the first signal has come.
        signals: those that are answered.
        once: whether a second signal changes nothing, as where nobody waits for the process who could send one.

    Attributes:
        requested: whether work shall stop.
        received: the number of the last signal; 0 before the first one.
    """

    def __init__(
        self,
        tell: Callable[[str], None] = lambda line: None,  # noqa: ARG005
        signals: Sequence[int] = SIGNALS,
        *,
        once: bool = False,
    ) -> None:
        self.requested, self.received = False, 0
        self._tell, self._signals, self._once = tell, signals, once
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._note) for number in self._signals}
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._write)
        self._listener.join()
        os.close(self._read)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.requested, self.received = True, number

    def _listen(self) -> None:
        """Reads the number of every signal from the pipe, until the pipe is closed."""
        told = False
        while number := os.read(self._read, 1):
            if number[0] not in self._signals or (told and self._once):
                continue
            if told:
                if sys.stderr.isatty():
                    sys.stderr.write(SHOW_CURSOR)
                    sys.stderr.flush()
                os._exit(128 + number[0])
            told = self.requested = True
            self._tell(STOPPING)
