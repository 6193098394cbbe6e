"""One trial of each fault; `python -m tests.faults` tries as many as there is time for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# A process of its own, for one that has devices of JAX cannot be forked.
@pytest.mark.parametrize(
    "names",
    [
        ("mutated c", "mutated o", "mutated t"),  # that take longer to start than to try
        *(
            pytest.param((name,), marks=pytest.mark.slow)
            for name in ("mutated r", "kill", "SIG", "file", "results", "home", "clock", "damaged")
        ),
    ],
)
def test_one_trial_is_survived(names: tuple[str, ...]) -> None:
    only = [word for name in names for word in ("--only", name)]
    words = [sys.executable, "-m", "tests.faults", *only, "--seconds", "0"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| fault | tried | survived |" in done.stdout
