"""The checker of arguments and results in tests: shapes and dtypes of arrays by jaxtyping, all else by beartype."""

from collections.abc import Callable
from typing import Any

from beartype import beartype


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks, but for one inside another function.

    Each call of the outer function would compile the checks of the inner one anew, which took half of the time of some tests.
    jaxtyping makes one function that checks the arguments, and one that checks them with the result. The second is enough.
    """
    before = function.__annotations__.get("return") is Any
    return function if before or "<locals>" in function.__qualname__ else beartype(function)
