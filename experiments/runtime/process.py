"""Which process this is, on which machine, and whether another one of this machine still runs."""

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict


class Owner(TypedDict):
    """A process.

    Attributes:
        host: the name of its machine.
        pid: its number there.
        began: when it began to work, ISO 8601, UTC.
        machine: which machine, since its start, and which of its tables of processes `pid` is of; empty where nobody tells.
        ticks: the start of the process on the clock of that machine, which tells two processes of one number apart.
    """

    host: str
    pid: int
    began: str
    machine: str
    ticks: str


def this_process() -> Owner:
    began = datetime.now(UTC).isoformat(timespec="seconds")
    return Owner(host=socket.gethostname(), pid=os.getpid(), began=began, machine=_machine(), ticks=_ticks(os.getpid()))


def alive(owner: Mapping[str, Any]) -> bool:
    """Whether a process may still run: False only for one of this machine that does not."""
    if not owner["machine"] or owner["machine"] != _machine():
        return True
    ticks = _ticks(owner["pid"])
    return ticks == owner["ticks"] or (not ticks and _hidden(owner["pid"]))


def _hidden(pid: int) -> bool:
    """Whether a process of this number is there, of another user, whom the system does not show."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError, TypeError):  # it is not there, or this is no number of a process
        pass
    return False


def _machine() -> str:
    """Of Linux alone. Hosts may share their name, and containers of one host have tables of their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  # no path
    except OSError:
        return ""


def _ticks(pid: int) -> str:
    """Empty for a process that is not there, or has ended and was not waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    state, started = fields[0], fields[19]
    return "" if state in "ZX" else started
