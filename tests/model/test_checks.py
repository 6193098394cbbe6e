"""What a decoder refuses of a text."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.checks import check_context, check_length
from leadline.model.context import Context
from leadline.model.intervention import no_intervention
from leadline.model.positions.t5 import T5
from tests.model.weights import BLOCK, rope

pytestmark = pytest.mark.usefixtures("mesh")

TABLES = rope(inverse_frequencies=np.ones((4, 1, 4)))  # of 4 positions
TWO = {"documents": jnp.zeros((2, 5), jnp.int32)}


def check(block: dict[str, Any], tokens: int = 5, learned_positions: int = 0, parts: int = 1) -> None:
    check_length(tokens, TABLES, replace(BLOCK, **block), learned_positions, parts=parts)


@pytest.mark.parametrize(
    ("block", "lengths", "message"),
    [
        ({}, {"tokens": 0}, "a text without tokens: give at least one"),
        ({}, {"learned_positions": 4}, "learned positions end at 4: 5 tokens are too many"),
        ({"table_per": "token"}, {}, "the tables end at 4 positions: 5 tokens are too many"),
        ({"table_per": "query"}, {"tokens": 4, "parts": 2}, "each query of this model rotates all keys"),
    ],
)
def test_a_text_without_a_position_for_each_token_is_refused(
    block: dict[str, Any], lengths: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check(block, **lengths)


@pytest.mark.parametrize(
    ("block", "lengths"),
    [
        ({}, {"learned_positions": 5, "parts": 5}),
        ({"table_per": "token"}, {"tokens": 4, "parts": 2}),
        ({"table_per": "query"}, {"tokens": 4}),
    ],
)
def test_a_text_that_ends_with_its_positions_is_not(block: dict[str, Any], lengths: dict[str, int]) -> None:
    check(block, **lengths)


@pytest.mark.parametrize(
    ("block", "document_end", "given", "message"),
    [
        ({}, None, {"intervention": no_intervention(2, 4, 2), **TWO}, "an intervention has one first token"),
        ({}, None, {"intervention": no_intervention(2, 4, 2), "context_parallel": True}, "texts of one document on one device"),
        ({}, 3, {"intervention": no_intervention(2, 4, 2)}, "an intervention has one first token"),
        ({}, 3, TWO, r"leave context\.documents out"),
        ({}, None, {"bidirectional": True, **TWO}, "read both ways is one document on one device"),
        ({}, 3, {"bidirectional": True}, "read both ways is one document on one device"),
        ({}, None, {"bidirectional": True, "context_parallel": True}, "read both ways is one document on one device"),
        ({"position_bias": T5()}, None, {"bidirectional": True}, r"T5\(.*both_ways=False\) is causal"),
        (
            {"table_per": "query", "scalable_softmax": True},
            None,
            {"bidirectional": True},
            "needs one table per sequence or per token",
        ),
    ],
)
def test_what_a_decoder_cannot_attend_to_is_refused(
    block: dict[str, Any], document_end: int | None, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_context(Context(**given), replace(BLOCK, **block), document_end)
