"""Preconditions of claims: the scale of models, a median over seeds, and those asked of each seed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.record import Record
from leadline.experiments.runtime.errors import UserError
from tests.experiments.configured import studies_of
from tests.experiments.records.key_bias import CLAIM, HEAD, RATES, WHEN, judged, records_of
from tests.experiments.records.simulation import TRIALS, highest_share


@pytest.mark.parametrize(
    ("condition", "rates", "outcome", "reason", "measured"),
    [
        ("needs = { parameters = 6e7 }\n", RATES, "not measured", "58k parameters, and the statement needs 60M", ""),
        (WHEN, RATES, "holds", "", ""),
        (WHEN, ((0.9, 0.0), (0.0, 0.0), (0.0, 0.0)), "not testable here", "no sink", "softmax: sink rate 0.300"),
    ],
)
def test_a_precondition_is_met_by_the_scale_and_the_median_over_seeds(
    tmp_path: Path, condition: str, rates: Any, outcome: str, reason: str, measured: str
) -> None:
    (study,) = studies_of(tmp_path, CLAIM + condition)
    verdict = judged(study, records_of(study, rates, parameters=58_000))
    assert verdict.outcome == outcome
    assert verdict.reason.startswith(reason) and verdict.measured.startswith(measured)


OF_ONE_ARM = f"""{HEAD}left = {{ quantity = "loss", arm = "softmax" }}
relation = "below"
right = 2.0
"""
EACH = WHEN.replace("reason", "each = true, reason")


def of_one_arm(plain: Sequence[Record], rates: Sequence[float | None], losses: Sequence[float]) -> list[Record]:
    """The records of softmax alone, with these sink rates and losses. Some lack the sink rate."""
    numbers = [
        [Measurement("loss", loss, "nats"), *([] if rate is None else [Measurement("sink_rate", rate, "share")])]
        for rate, loss in zip(rates, losses, strict=True)
    ]
    return [record.model_copy(update={"measurements": tuple(of_seed)}) for record, of_seed in zip(plain, numbers, strict=True)]


@pytest.mark.parametrize(
    ("condition", "rates", "outcome", "n", "reason"),
    [
        (WHEN, (0.5, 0.0, 0.5), "undecided", 3, "mean margin"),
        (EACH, (0.5, 0.0, 0.5), "holds", 2, "1 of 3 seeds of softmax left out: no sink"),
        (EACH, (0.5, None, 0.5), "holds", 2, "1 of 3 seeds of softmax left out: no sink"),
        (EACH, (0.0, 0.0, 0.5), "not testable here", 3, "no sink"),
    ],
)
def test_a_precondition_of_each_seed_leaves_out_the_seeds_that_do_not_meet_it(
    tmp_path: Path, condition: str, rates: tuple[float | None, ...], outcome: str, n: int, reason: str
) -> None:
    """The loss is 9 in the second seed, and below 2 in the others."""
    (study,) = studies_of(tmp_path, OF_ONE_ARM + condition)
    verdict = judged(study, of_one_arm(records_of(study)[:3], rates, (1.0, 9.0, 1.01)))
    assert (verdict.outcome, verdict.n) == (outcome, n)
    assert reason in verdict.reason


def test_leaving_out_seeds_decides_no_more_often_where_there_is_no_effect(tmp_path: Path) -> None:
    """The mean loss is the threshold in seeds with a sink, and above it in those without, which would decide the claim."""
    (study,) = studies_of(tmp_path, OF_ONE_ARM + EACH)
    plain, rng, outcomes = records_of(study, [(0.0, 0.0)] * 10)[:10], np.random.default_rng(0), Counter[str]()
    for _ in range(TRIALS):
        rates, losses = rng.choice([0.01, 0.4], size=10, p=[0.3, 0.7]), rng.normal(size=10)
        losses = 2.0 + 0.1 * losses + 0.5 * (rates < 0.05)
        outcomes[judged(study, of_one_arm(plain, rates.tolist(), losses.tolist())).outcome] += 1
    testable = TRIALS - outcomes["not testable here"]
    assert 0.01 < (outcomes["holds"] + outcomes["fails"]) / testable < highest_share(0.05, testable)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (CLAIM, "`each` selects seeds by sink_rate of softmax, which would favour it"),
        (OF_ONE_ARM.replace("loss", "sink_rate"), "`each` selects seeds by sink_rate of softmax, which would favour it"),
        (HEAD + 'function = "a:b"\narms = "softmax"\n', "a function takes all seeds: remove `each` from when"),
    ],
)
def test_seeds_are_not_chosen_by_what_is_compared(tmp_path: Path, claim: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        studies_of(tmp_path, claim + EACH)


def test_what_a_study_needs_each_of_its_claims_needs(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, CLAIM)
    longer = study.model_copy(update={"needs": {"steps": 900.0}})
    verdict = judged(longer, records_of(longer, steps=600))
    assert (verdict.outcome, verdict.reason) == ("not measured", "600 steps, and the statement needs 900")
    assert judged(longer, records_of(longer, steps=900)).outcome == "holds"
