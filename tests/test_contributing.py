"""CONTRIBUTING.md, followed in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DIFFS = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.DOTALL)
FILES = {"encoding": 2, "normalizer": 2, "measurement": 1, "study": 1, "claim": 1}  # in the order of the document


def test_a_change_touches_few_files() -> None:
    touched = [len(set(re.findall(r"^\+\+\+ b/(\S+)", diff, flags=re.MULTILINE))) for diff in DIFFS]
    assert dict(zip(FILES, touched, strict=True)) == FILES


@pytest.mark.slow
def test_what_the_recipes_add_is_trained_measured_and_judged(tmp_path: Path) -> None:
    """In the repository with every change of the document."""
    for name in ("model", "tokenization", "experiments", "src", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for diff in DIFFS:
        subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True)
    quick = ("train.steps=3", "train.batch=2", "measure.every=3", "measure.windows=2")
    done = subprocess.run(
        [sys.executable, "-m", "leadline", "run", "configs/my_study.toml", *quick],
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}", "JAX_PLATFORMS": "cpu"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for shown in ("squared ReLU", "second mass", "squared-relu"):
        assert shown in done.stdout
