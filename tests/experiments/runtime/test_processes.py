"""Processes: workers that end with their parent, a program that starts itself anew, and Ctrl-C."""

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.experiments.runtime.cpu import HUGE_PAGES, TUNABLES, cores, restart_with_huge_pages, wanted
from leadline.experiments.runtime.signals import SIGNALS, STOPPING, Interruption

# Has its workers, and waits to be killed.
PARENT = """
import os, time
from leadline.experiments.runtime.cpu import process_pool
if __name__ == "__main__":
    pool = process_pool()
    print(pool.submit(os.getpid).result() != os.getpid(), flush=True)
    time.sleep(60)
"""
# The main thread is in one long call of a library, as while XLA compiles.
BUSY = """
import hashlib, sys
from leadline.experiments.runtime.signals import Interruption
with Interruption(lambda line: print(line, flush=True)):
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""
ANEW = f"""
import os, sys
from leadline.experiments.runtime.cpu import restart_with_huge_pages
print("begin", flush=True)
restart_with_huge_pages()
print(os.environ["{TUNABLES}"], *sys.argv[1:])
"""


def _started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    assert cores() >= 1
    (tmp_path / "parent.py").write_text(PARENT)
    with _started(str(tmp_path / "parent.py")) as parent:
        assert _said(parent) == "True\n"
        parent.kill()
        # The workers have its output too: the end of it is there when all of them have ended.
        assert parent.communicate(timeout=30) == ("", None)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks_and_a_second_one_ends_at_once(number: signal.Signals) -> None:
    lines: list[str] = []
    with Interruption(lines.append) as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        while not lines:
            time.sleep(0.001)
        assert interruption.requested
    assert lines == [STOPPING]
    with _started("-c", BUSY) as process:
        assert _said(process) == "busy\n"
        process.send_signal(number)
        assert _said(process) == f"{STOPPING}\n"
        process.send_signal(number)
        assert process.wait(timeout=5) == 128 + number


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError), Interruption():
        assert signal.getsignal(signal.SIGINT) is not before[0]
        raise RuntimeError
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


WANTED = {"2.35": True, "2.41": True, "2.31": False, "": False}  # "": musl


@pytest.mark.parametrize(("version", "expected"), WANTED.items())
def test_huge_pages_are_wanted_where_glibc_knows_them(version: str, expected: bool) -> None:
    assert wanted("linux", ("glibc" if version else "", version), {}) == expected
    assert not wanted("darwin", ("", ""), {})
    assert not wanted("linux", ("glibc", version), {TUNABLES: ""})


@pytest.mark.skipif(not wanted(sys.platform, platform.libc_ver(), {}), reason="no glibc of 2.35 or later")
def test_a_program_is_started_anew_once_with_its_words() -> None:
    environment = {name: value for name, value in os.environ.items() if name != TUNABLES}
    words = [sys.executable, "-c", ANEW, "run", "a b"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["begin", "begin", f"{HUGE_PAGES} run a b"]


def test_nothing_is_started_anew_where_jax_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "execve", lambda *words: pytest.fail(f"{words} began"))
    assert "jax" in sys.modules
    restart_with_huge_pages()
