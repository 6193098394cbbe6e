"""Verdicts on one published model, which has no seeds."""

import numpy as np
import pytest

from leadline.experiments.records.left_out import LeftOut
from leadline.experiments.records.verdict import Verdict, verdicts
from tests.experiments.records.claimed import ABOVE_HALF
from tests.experiments.synthetic_records import PUBLISHED_MODEL, measured, of_published_model, published_study

RATE = {"quantity": "sink_rate", "arm": "sinks"}
MORE = {"left": RATE, "relation": "above", "right": {"quantity": "sink_rate", "arm": "streaming"}}
OF_MODEL = {
    "high": {"left": RATE, "relation": "above", "right": 0.5},
    "low": {"left": RATE, "relation": "above", "right": 0.9, "source": "gu2025", "shown_at": "7B parameters"},
    "untestable": {**MORE, "when": [{"term": RATE, "relation": "above", "value": 0.8, "reason": "no sink"}]},
    "more": MORE,
    "computed": {"function": ABOVE_HALF, "arms": "sinks"},
}


@pytest.fixture
def of_model() -> dict[str, Verdict]:
    """Verdicts on one published model that was measured by one of two arms."""
    study = published_study([{"id": name, "statement": f"{name} is said.", **claim} for name, claim in OF_MODEL.items()])
    record = of_published_model("sinks", measured("sink_rate", 0.7)).record
    return {verdict.id: verdict for verdict in verdicts({study.study: study}, [record])}


def test_a_published_model_is_judged_by_its_figures_without_an_interval(of_model: dict[str, Verdict]) -> None:
    outcomes = {name: verdict.outcome for name, verdict in of_model.items()}
    assert outcomes == {
        "high": "holds",
        "low": "fails",
        "untestable": "not measured",
        "more": "not measured",
        "computed": "holds",
    }
    assert {verdict.column for verdict in of_model.values()} == {PUBLISHED_MODEL}
    high, low = of_model["high"], of_model["low"]
    assert (high.n, high.interval, high.windows) == (1, None, "100 windows from 34 documents")
    assert (high.reason, high.scale) == ("one model, no interval: 1 case", "SmolLM2-135M, 135M parameters")
    assert low.reason.endswith("not shown at 135M parameters; it was shown at 7B parameters")


@pytest.mark.parametrize(("spread", "outcome"), [(0.001, "holds"), (0.1, "undecided")])
def test_a_published_model_is_judged_over_documents_where_groups_of_them_were_left_out(spread: float, outcome: str) -> None:
    study = published_study([{"id": "high", "statement": "high is said.", **OF_MODEL["high"]}])
    groups = tuple((0.7 + spread * np.linspace(-1, 1, 16)).tolist())
    entry = of_published_model("sinks", measured("sink_rate", 0.7)).record
    (verdict,) = verdicts({study.study: study}, [entry.model_copy(update={"left_out": (LeftOut("sink_rate", {}, groups),)})])
    assert (verdict.outcome, verdict.interval is None) == (outcome, False)
    assert verdict.reason.endswith("over documents of one model")
