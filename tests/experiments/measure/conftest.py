"""Measurements are compared to the last digits: they are compiled as in use."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> None:
    """In the place of the one above."""
