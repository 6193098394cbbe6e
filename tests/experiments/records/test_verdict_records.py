"""What is on record decides what is compared: arms, seeds, documents and finite values."""

from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.study import Study
from leadline.experiments.records.left_out import LeftOut
from leadline.experiments.records.measurement import Measurement
from tests.experiments.configured import studies_of
from tests.experiments.records.key_bias import CLAIM, EITHER, Change, configured, judged, records_of, updated


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return studies_of(tmp_path, CLAIM)[0]


def test_of_cases_with_one_outcome_the_nearest_to_failing_is_shown(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, EITHER)
    verdict = judged(study, records_of(study))
    assert verdict.reason.startswith("holds in 2 of 2 comparisons; least favourable: mean margin 0.1467, ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (updated(status="diverged"), "biased: no seed has all that is compared"),
        (updated(measurements=()), "biased: 3 of 3 seeds left out: a compared value is missing or not finite"),
        (lambda _: [], "no record is of biased, which is one of either"),
    ],
)
def test_a_claim_about_several_arms_needs_every_one_of_them(tmp_path: Path, change: Change, reason: str) -> None:
    (study,) = studies_of(tmp_path, EITHER)
    records = records_of(study)
    verdict = judged(study, [*records[:3], *change(records[3:])])
    assert (verdict.outcome, verdict.reason) == ("not measured", reason)


def test_an_arm_that_shares_no_seed_with_the_other_side_is_named(study: Study) -> None:
    biased = [entry.model_copy(update={"seed": entry.seed + 10}) for entry in records_of(study)[3:]]
    seeds = study.model_copy(update={"seeds": tuple(range(20))})
    verdict = judged(seeds, [*records_of(study)[:3], *biased])
    assert (verdict.outcome, verdict.reason) == ("not measured", "biased and plain: no seed has all that is compared")


def test_a_claim_about_several_arms_is_not_measured_where_today_refuses_one_of_them(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, EITHER)
    records = records_of(study)
    older = study.model_copy(update={"arms": {**study.arms, "old": {"model": {"gone": 3}}}})
    verdict = judged(older, records)
    assert verdict.outcome == "not measured"
    assert verdict.reason.startswith("the arms of the study cannot be read: extrapolation: arms.old: model.gone: unknown key")


def test_seeds_without_a_finite_value_are_counted(study: Study) -> None:
    records = records_of(study)
    verdict = judged(study, [*updated(measurements=(Measurement("sink_rate", None, "share"),))(records[:1]), *records[1:]])
    assert verdict.n == 2
    assert "1 of 3 seeds left out: a compared value is missing or not finite" in verdict.reason


@pytest.mark.parametrize("line", ["", "factor = 1.5\n", "log = true\n"])
def test_documents_count_where_both_sides_were_measured_without_groups_of_them(line: str, tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, f"{CLAIM}{line}")
    plain = records_of(study)
    moved = [[(entry.measurements[0].value or 0.0) + 0.01 * group for group in range(4)] for entry in plain]
    without = [LeftOut("sink_rate", {}, tuple(values)) for values in moved]
    grouped = [entry.model_copy(update={"left_out": (rest,)}) for entry, rest in zip(plain, without, strict=True)]
    one_side = [*grouped[:3], *plain[3:]]
    assert judged(study, one_side).interval == judged(study, plain).interval
    assert judged(study, one_side).turns == judged(study, plain).turns
    if line:
        assert np.ptp(judged(study, grouped).interval or 0) > np.ptp(judged(study, plain).interval or 0)
        assert np.ptp(judged(study, grouped).turns or 0) > np.ptp(judged(study, plain).turns or 0)
    else:  # the documents move both sides alike
        assert judged(study, grouped).interval == pytest.approx(judged(study, plain).interval)


# A change to the records, a part of the reason, and the number of seeds that are left: of 0 nothing is measured.
CHANGES: dict[str, tuple[Change, str, int]] = {
    "arms are paired by seed": (lambda records: [*records[:4], records[5]], "", 2),
    "a seed diverged": (
        lambda records: [*updated(status="diverged")(records[:1]), *records[1:]],
        "1 model diverged and is left out",
        2,
    ),
    "every seed diverged": (updated(status="diverged"), "every seed of", 0),
    "records of another study do not count": (updated(study="other"), "no records", 0),
    "a setting that no selector names counts": (configured("model", width=256), "no recorded arm is key bias", 0),
    "what is measured besides does not matter": (configured("measure", windows=64), "", 3),
    "a selector matches two arms": (
        lambda records: [*records, *updated(arm="twin", arm_hash="f" * 12)(records[:3])],
        "ambiguous: softmax may be plain (000000000000) or twin (ffffffffffff)",
        0,
    ),
    "what is not on record is named": (updated(measurements=()), "key bias: sink rate is not on record", 0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_on_record_decides_the_outcome(study: Study, name: str) -> None:
    change, reason, n = CHANGES[name]
    verdict = judged(study, change(records_of(study)))
    assert (verdict.outcome, verdict.n) == ("holds" if n else "not measured", n)
    assert reason in verdict.reason
    assert (verdict.column == "not run") == (reason == "no records")
