from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import jax
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tests.experiments.called import Called
from tests.experiments.data.corpora import write_corpus


@pytest.fixture(scope="module", autouse=True)
def _toy_programs(quick_to_compile: None) -> None:
    """All programs here are of toy size."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of twenty short texts in prose."""
    return write_corpus(tmp_path_factory.mktemp("texts"), 20, lines=5, code=False)


@pytest.fixture(scope="module")
def in_use() -> Iterator[None]:
    """optax raises a float to the power of an integer, which strict promotion forbids."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def unrendered() -> Iterator[None]:
    """Figures are drawn, and not rendered: that takes longer than all the rest."""

    def blank(figure: Figure, file: BinaryIO, *, format: str, **_: object) -> None:  # noqa: A002, ARG001
        Image.new("L", (1, 1)).save(file, "PNG") if format == "png" else file.write(b"<svg></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", blank)
        yield


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    return Called(monkeypatch, capsys)
