"""The outcomes of claims by protocol."""

from dataclasses import replace

from leadline.experiments.publish.multiverse import multiverse
from tests.experiments.publish.test_ledger import PUBLISHED


def test_claims_by_several_protocols_are_drawn_and_no_others() -> None:
    assert multiverse([PUBLISHED]) is None
    turning = replace(PUBLISHED, id="turning", protocols={"tokens": "holds", "last 64": "undecided"})
    drawn = multiverse(
        [turning, replace(turning, id="steady", protocols={"tokens": "holds"}), replace(PUBLISHED, id="no perplexity")]
    )
    assert drawn is not None
    text = drawn.svg.decode()
    assert all(name in text for name in ("turning", "steady", "tokens", "last positions", "holds", "undecided"))
    assert "no perplexity" not in text and "fails" not in text
