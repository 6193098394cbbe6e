"""Ctrl-C is a question first, and an order the second time."""

import os
import signal
import subprocess
import sys
import time

import pytest

from leadline.experiments.runtime.signals import SIGNALS, STOPPING, Interruption

# The main thread is in one long call of a library, as while XLA compiles.
BUSY = """
import hashlib, sys
from leadline.experiments.runtime.signals import Interruption
with Interruption(lambda line: print(line, flush=True)):
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks(number: signal.Signals) -> None:
    lines: list[str] = []
    with Interruption(lines.append) as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        while not lines:
            time.sleep(0.001)
        assert interruption.requested
    assert lines == [STOPPING]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_at_once(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        assert process.stdout.readline() == f"{STOPPING}\n"
        process.send_signal(number)
        assert process.wait(timeout=5) == 128 + number


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError), Interruption():
        assert signal.getsignal(signal.SIGINT) is not before[0]
        raise RuntimeError
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
