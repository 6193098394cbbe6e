"""Configurations that tests write, and what is said of the mistakes in them."""

from pathlib import Path

import pytest

from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.runtime.errors import UserError

EXTRAPOLATION = """
study = "extrapolation"
model.position = { kind = "rope", base = 100.0 }
data = { kind = "text", length = 16 }
train = { steps = 10, batch = 4, learning_rate = 1e-3 }
measure = { sink.length = 16, perplexity = { lengths = [16, 32], last = 8 } }
"""
SINKS = """
study = "sinks"
seeds = [0, 1]
model = { width = 32, heads = 2, position = { kind = "rope", base = 10000.0 } }
data.kind = "backcopy"
train = { steps = 10, batch = 4, learning_rate = 1e-3 }
"""


def write_config(folder: Path, text: str, name: str = "study.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def studies_of(folder: Path, text: str, *words: str) -> list[Study]:
    return load_studies(write_config(folder, text), words)


def configured_arms(folder: Path, text: str, *words: str) -> list[Arm]:
    return arms_of(studies_of(folder, text, *words)[0], folder / "study.toml")


def complaint_of(folder: Path, text: str, *words: str) -> str:
    with pytest.raises(UserError) as raised:
        configured_arms(folder, text, *words)
    return str(raised.value)
