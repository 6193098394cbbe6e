"""The checker of arguments and results in tests: shapes and dtypes of arrays by jaxtyping, all else by beartype."""

from collections.abc import Callable
from typing import Any

from beartype import beartype


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks, but for one inside another function.

    Each call of the outer function would compile the checks of the inner one anew, which took half of the time of some tests.
    """
    return function if "<locals>" in function.__qualname__ else beartype(function)
