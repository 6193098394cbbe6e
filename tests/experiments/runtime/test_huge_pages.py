"""A process that starts itself anew, once."""

import os
import platform
import subprocess
import sys

import pytest

from leadline.experiments.runtime.huge_pages import HUGE_PAGES, TUNABLES, restart_with_huge_pages, wanted


@pytest.mark.parametrize(
    ("system", "library", "environment", "expected"),
    [
        ("linux", ("glibc", "2.35"), {}, True),
        ("linux", ("glibc", "2.41"), {}, True),
        ("linux", ("glibc", "2.31"), {}, False),
        ("linux", ("", ""), {}, False),  # musl
        ("darwin", ("", ""), {}, False),
        ("linux", ("glibc", "2.36"), {TUNABLES: ""}, False),
    ],
)
def test_where_it_is_wanted(system: str, library: tuple[str, str], environment: dict[str, str], expected: bool) -> None:
    assert wanted(system, library, environment) == expected


@pytest.mark.skipif(not wanted(sys.platform, platform.libc_ver(), {}), reason="no glibc of 2.35 or later")
def test_a_program_is_started_anew_once_with_its_words() -> None:
    code = (
        "import os, sys; from experiments.runtime.huge_pages import restart_with_huge_pages; print('begin', flush=True);"
        f"restart_with_huge_pages(); print(os.environ['{TUNABLES}'], *sys.argv[1:])"
    )
    environment = {name: value for name, value in os.environ.items() if name != TUNABLES}
    words = [sys.executable, "-c", code, "run", "a b"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["begin", "begin", f"{HUGE_PAGES} run a b"]


def test_nothing_happens_where_jax_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(os, "execve", lambda *words: called.append(words))
    assert "jax" in sys.modules
    restart_with_huge_pages()
    assert called == []
