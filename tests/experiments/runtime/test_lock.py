"""A folder has one run at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.lock import locked

HOLD = """
import pathlib, sys, time
from leadline.experiments.runtime.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "sinks"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=r"sinks: another run is at work here; wait") as raised, locked(folder):
            pass
        assert "\n" not in str(raised.value)
        process.kill()
        process.wait()
    for _ in range(2):
        with locked(folder):
            pass


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--results"), locked(tmp_path / "file" / "sinks"):
        pass
