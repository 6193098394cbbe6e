"""Measurements are compared to the last digits: they are compiled as in use, but no layer twice."""

from collections.abc import Iterator

import jax
import pytest

from leadline.model import decoder


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> None:
    """In the place of the one above."""


@pytest.fixture(scope="module", autouse=True)
def scanned() -> Iterator[None]:
    """Layers are scanned, as those of a deep model are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "UNROLLED", 0)
        yield
    jax.clear_caches()
