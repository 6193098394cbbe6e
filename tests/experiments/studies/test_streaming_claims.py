"""Every claim on streams, on records that support it and on records that do not."""

import pytest

from experiments.evidence import judge
from experiments.record import Record
from experiments.studies.streaming import STUDY
from experiments.studies.streaming_claims import STREAMING
from tests.experiments.synthetic_records import measured, record

CLAIMS = {claim.id: claim for claim in STREAMING}

# For each claim the arm, and values of one seed that support it and that contradict it.
CASES: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    "xiao-window": ("rope", {"perplexity.kept4": 5, "perplexity.kept0": 30}, {"perplexity.kept4": 5, "perplexity.kept0": 9}),
    "xiao-window-sink-token": (
        "bos",
        {"perplexity.kept4": 5, "perplexity.kept0": 30},
        {"perplexity.kept4": 5, "perplexity.kept0": 9},
    ),
    "xiao-one": (
        "rope",
        {"perplexity.kept0": 30, "perplexity.kept1": 6, "perplexity.kept4": 5},
        {"perplexity.kept0": 30, "perplexity.kept1": 25, "perplexity.kept4": 5},
    ),
    "xiao-one-sink-token": (
        "bos",
        {"perplexity.kept4": 5, "perplexity.kept1": 5.01},
        {"perplexity.kept4": 5, "perplexity.kept1": 5.2},
    ),
    "xiao-positions": (
        "bos",
        {"perplexity.kept4": 5, "perplexity.kept4_in_text": 9},
        {"perplexity.kept4": 5, "perplexity.kept4_in_text": 5.1},
    ),
    "xiao-no-longer-context": (
        "bos",
        {"perplexity_sampled.recomputed": 5, "perplexity_sampled.kept4": 4.9},
        {"perplexity_sampled.recomputed": 5, "perplexity_sampled.kept4": 4.5},
    ),
}
for _id, _arm in (("xiao-four", "rope"), ("xiao-four-sink-token", "bos")):
    CASES[_id] = (
        _arm,
        {"perplexity_sampled.recomputed": 5, "perplexity_sampled.kept4": 5.1},
        {"perplexity_sampled.recomputed": 5, "perplexity_sampled.kept4": 5.6},
    )
# The same for claims that compare an arm with the plain model of texts with BOS.
_PLAIN = {"perplexity.kept4": 5, "perplexity.kept0": 5.5}
BETWEEN: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    claim: (arm, {"perplexity.kept4": 6, "perplexity.kept0": 6.1}, {"perplexity.kept4": 6, "perplexity.kept0": 7})
    for claim, arm in (("logit-needs-none", "bos_logit"), ("gate-needs-none", "bos_gate"))
}


def _seeds(arm: str, rows: list[dict[str, float]]) -> list[Record]:
    """A record a row, each a per cent above the one before: ratios do not change, so each also differs by a little more."""
    made = []
    for seed, row in enumerate(rows):
        last = list(row)[-1]
        values = {name: value * (1 + 0.001 * seed * (name == last)) for name, value in row.items()}
        made.append(record(STUDY, arm, seed, measurements=measured(values, "per token")))
    return made


def test_every_claim_is_tried() -> None:
    assert set(CASES) | set(BETWEEN) == set(CLAIMS)


@pytest.mark.parametrize("claim", CASES)
def test_claims_go_both_ways(claim: str) -> None:
    arm, supporting, contrary = CASES[claim]
    assert judge(CLAIMS[claim], _seeds(arm, [supporting] * 3)).verdict == "holds"
    assert judge(CLAIMS[claim], _seeds(arm, [contrary] * 3)).verdict == "fails"
    assert judge(CLAIMS[claim], _seeds(arm, [supporting, contrary, supporting])).verdict == "mixed"
    assert judge(CLAIMS[claim], _seeds("other", [supporting] * 3)).verdict == "not measured"


@pytest.mark.parametrize("claim", BETWEEN)
def test_claims_between_arms_go_both_ways(claim: str) -> None:
    arm, supporting, contrary = BETWEEN[claim]
    plain = _seeds("bos", [_PLAIN] * 3)
    assert judge(CLAIMS[claim], [*plain, *_seeds(arm, [supporting] * 3)]).verdict == "holds"
    assert judge(CLAIMS[claim], [*plain, *_seeds(arm, [contrary] * 3)]).verdict == "fails"
    assert judge(CLAIMS[claim], [*plain, *_seeds(arm, [supporting, contrary, supporting])]).verdict == "mixed"
    assert judge(CLAIMS[claim], _seeds(arm, [supporting] * 3)).verdict == "not measured"
