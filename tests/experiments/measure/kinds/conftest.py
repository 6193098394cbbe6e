"""Programs of toy size, compiled once for all tests of a kind of data."""

from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.kinds.registry import final_points
from leadline.experiments.records.measurement import Point
from leadline.model.mesh import make_mesh
from tests.experiments.measure.kinds.toys import DATA, NOPE, arm, corpus, models_of, source_of


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> Iterator[None]:
    """These programs need not be fast."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    corpus(folder)
    return folder


Measured = tuple[Models, list[Point]]


@pytest.fixture(scope="session")
def measured(folder: Path) -> Callable[[str], Measured]:
    """Three models of a kind of data and what is measured of them at the end.

    The second has other weights, and other positions or another first token; the third is the first once more.
    """
    done: dict[str, Measured] = {}

    def of(kind: str) -> Measured:
        if kind not in done:
            source = source_of(kind, folder)
            other = arm("other", kind, NOPE) if kind in ("text", "retrieval") else arm("other", kind)
            if kind == "backcopy":
                other = other.model_copy(update={"data": DATA[kind].model_copy(update={"bos": "absent"})})
            with jax.set_mesh(make_mesh()):
                models = models_of([arm("rope", kind), other, arm("rope", kind)], source, (1, 2, 1))
            done[kind] = models, final_points(models)
        return done[kind]

    return of
