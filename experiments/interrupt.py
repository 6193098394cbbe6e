"""Ctrl-C as a question that long work asks itself between steps."""

import signal
from types import FrameType, TracebackType


class Interrupted(Exception):  # noqa: N818  # it is no error
    """The work stopped where it was asked to, with everything kept; the text says how to go on."""


class Interruption:
    """While it is entered, SIGINT and SIGTERM set `requested` instead of raising; a second SIGINT raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, signal.Handlers | signal.Handler | None] = {}  # pyright: ignore[reportAttributeAccessIssue]

    def __enter__(self) -> "Interruption":
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
