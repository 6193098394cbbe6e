"""Processes of a pool."""

import os
import subprocess
import sys
from pathlib import Path

from leadline.experiments.runtime.cpu import cores

ROOT = Path(__file__).parents[3]
# Has its workers, and waits to be killed.
PARENT = """
import os, time
from experiments.runtime.cpu import process_pool
if __name__ == "__main__":
    pool = process_pool()
    print(pool.submit(os.getpid).result() != os.getpid(), flush=True)
    time.sleep(60)
"""


def test_there_is_a_core() -> None:
    assert cores() >= 1


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    command, environment = [sys.executable, str(script)], {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "True\n"
        parent.kill()
        # The workers have its output too: the end of it is there when all of them have ended.
        assert parent.communicate(timeout=30) == ("", None)
