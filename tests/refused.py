"""Tests of what is refused, as tables."""

from collections.abc import Callable

import pytest


def refused(*rows: tuple[Callable[[], object], str]) -> Callable[..., None]:
    """A test with a case for each call and the message of the ValueError that it raises."""

    @pytest.mark.parametrize(("call", "message"), rows)
    def test(call: Callable[[], object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            call()

    return test
