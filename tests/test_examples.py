"""The notebooks of examples/, run from their first cell to the last."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))
LARGEST = 200_000  # bytes, with the figures that are shown on the page of the repository
SECONDS = 900


@pytest.mark.parametrize("notebook", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_is_small(notebook: Path) -> None:
    assert notebook.stat().st_size <= LARGEST


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None or find_spec("ipykernel") is None, reason="nbclient or ipykernel is missing")
@pytest.mark.parametrize("notebook", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """In a folder of its own, by the Python of the tests."""
    script = (
        "import sys, nbformat\n"
        "from nbclient import NotebookClient\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        f"NotebookClient(notebook, timeout={SECONDS}, kernel_name='python3').execute()\n"
    )
    users = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # those of tests make slow programs
    inline = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    environment = {**users, **inline, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(notebook)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert list(tmp_path.glob("results/notebook/*/*/s*/record.json"))
