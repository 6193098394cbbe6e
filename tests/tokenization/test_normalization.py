"""Normalization, one step at a time."""

import pytest

from leadline.tokenization.normalization import normalize


@pytest.mark.parametrize(
    ("steps", "text", "expected"),
    [
        ((), " É\t", " É\t"),
        ((), " É\t".encode(), " É\t"),
        (("nfc",), "e\u0301 \ufb01", "é \ufb01"),
        (("nfkc",), "e\u0301 \ufb01 \uff12", "é fi 2"),
        (("lower",), "ÉA İ", "éa i̇"),
        (("spaces",), " a \n\t b\u3000c ", "a b c"),
        (("nfkc", "lower", "spaces"), "\ufb01\u00a0 X", "fi x"),
    ],
)
def test_steps(steps: tuple, text: str | bytes, expected: str) -> None:
    assert normalize(text, steps) == expected
