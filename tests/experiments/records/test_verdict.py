from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Study
from leadline.experiments.records.arms import matches, recorded_arms
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.record import Record
from leadline.experiments.records.verdict import Verdict, verdicts
from leadline.experiments.runtime.errors import UserError
from tests.experiments.records.claimed import changed, record

STUDY = """
study = "mine"
[model]
position = { kind = "rope", base = 100.0 }
[data]
kind = "text"
length = 16
[train]
steps = 10
batch = 4
learning_rate = 1e-3
[arms.plain]
[arms.biased]
model.sink = { kind = "key_bias" }
[selectors]
softmax = { "model.normalizer" = "softmax", "model.sink" = "none" }
key_bias = { "model.sink" = { kind = "key_bias" } }
[[claims]]
id = "less"
statement = "A key bias gives a lower sink rate than softmax."
left = { quantity = "sink_rate", arm = "key_bias" }
relation = "below"
right = { quantity = "sink_rate", arm = "softmax" }
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return study_of(tmp_path, STUDY)


def study_of(folder: Path, text: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return load_studies(path)[0]


def records_of(study: Study, *rates: tuple[float, float], **changes: object) -> list[Record]:
    """A record an arm and seed, with the sink rates of `plain` and `biased`."""
    return [
        record(study.study, arm.name, number, seed, arm.model_dump(), **changes).model_copy(
            update={"measurements": (Measurement("sink_rate", row[number], "share"),)}
        )
        for number, arm in enumerate(arms_of(study, Path()))
        for seed, row in enumerate(rates)
    ]


def judged(study: Study, records: list[Record]) -> Verdict:
    (verdict,) = verdicts({study.study: study}, records)
    return verdict


RATES = ((0.5, 0.1), (0.6, 0.2), (0.55, 0.15))


def test_a_verdict_has_figures_seeds_interval_and_scale(study: Study) -> None:
    verdict = judged(study, records_of(study, *RATES, parameters=1_230_000, steps=10, tokens=640))
    assert verdict.outcome == "holds" and verdict.n == 3 and verdict.own
    assert verdict.measured == "key bias: sink rate 0.150 ± 0.050; softmax: sink rate 0.550 ± 0.050"
    assert verdict.interval == pytest.approx((0.4, 0.4))
    assert verdict.scale == "2 layers of width 128, 1.23M parameters, 10 steps, 640 tokens"


def test_arms_are_paired_by_seed(study: Study) -> None:
    records = [entry for entry in records_of(study, *RATES) if not (entry.arm == "biased" and entry.seed == 1)]
    assert judged(study, records).n == 2


def test_seeds_that_diverged_are_left_out_and_counted(study: Study) -> None:
    records = records_of(study, *RATES)
    records[0] = records[0].model_copy(update={"status": "diverged"})
    verdict = judged(study, records)
    assert verdict.n == 2 and "1 seed diverged" in verdict.reason
    lost = judged(study, [entry.model_copy(update={"status": "diverged"}) for entry in records])
    assert lost.outcome == "not measured" and "every seed of" in lost.reason


def test_records_of_another_study_do_not_count(study: Study) -> None:
    records = [entry.model_copy(update={"study": "other"}) for entry in records_of(study, *RATES)]
    assert judged(study, records).reason == "no records"


def test_a_setting_that_no_selector_names_unmeasures_a_claim(study: Study) -> None:
    def wider(config: dict[str, Any]) -> None:
        config["model"]["width"] = 256

    verdict = judged(study, changed(records_of(study, *RATES), wider))
    assert verdict.outcome == "not measured" and "no recorded arm is key bias" in verdict.reason


def test_what_is_measured_besides_does_not_matter(study: Study) -> None:
    def more(config: dict[str, Any]) -> None:
        config["measure"]["windows"] = 64

    assert judged(study, changed(records_of(study, *RATES), more)).outcome == "holds"


def test_two_arms_that_a_selector_matches_are_ambiguous(study: Study) -> None:
    records = records_of(study, *RATES)
    again = [entry.model_copy(update={"arm": "twin", "arm_hash": "f" * 12}) for entry in records if entry.arm == "plain"]
    verdict = judged(study, records + again)
    assert verdict.outcome == "not measured"
    assert verdict.reason == "ambiguous: softmax may be plain (000000000000) or twin (ffffffffffff)"


def test_the_smallest_scale_is_a_figure(tmp_path: Path) -> None:
    study = study_of(tmp_path, STUDY + "needs = { parameters = 6e7 }\n")
    verdict = judged(study, records_of(study, *RATES, parameters=58_000))
    assert verdict.outcome == "not measured" and verdict.reason == "58k parameters, and the statement needs 60M"


def test_the_median_over_seeds_meets_a_precondition(tmp_path: Path) -> None:
    when = (
        'when = [{ term = { quantity = "sink_rate", arm = "softmax" }, relation = "above", value = 0.05, reason = "no sink" }]'
    )
    study = study_of(tmp_path, STUDY + when)
    assert judged(study, records_of(study, *RATES)).outcome == "holds"
    one_of_three = judged(study, records_of(study, (0.9, 0.0), (0.0, 0.0), (0.0, 0.0)))
    assert one_of_three.outcome == "not testable here" and one_of_three.reason.startswith("no sink")
    assert one_of_three.measured.startswith("softmax: sink rate 0.300")


def test_what_is_not_on_record_is_named(study: Study) -> None:
    bare = [entry.model_copy(update={"measurements": ()}) for entry in records_of(study, *RATES)]
    assert judged(study, bare).reason == "key bias: sink rate is not on record"


def test_a_function_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    head, _, _ = STUDY.partition("left =")
    study = study_of(tmp_path, head + 'function = "leadline.nowhere:predicate"\narms = "softmax"\n')
    with pytest.raises(UserError, match=r"leadline\.nowhere"):
        judged(study, records_of(study, *RATES))


@pytest.mark.parametrize(
    ("selector", "number"),
    [
        ('"model.sink" = "key_bias"', 1),
        ('"model.sink" = ["key_bias", "learned"]', 1),
        ('"model.sink" = "any"', 2),
        ('"model.sink" = { kind = "key_bias", dims = 4 }', 0),
        ('"data.length" = { multiple = 1 }', 1),
        ('"data.length" = { multiple = 2 }', 0),
        ("start = true", 0),
        ('"model.kind" = "any"', 0),
    ],
)
def test_selectors_match_by_value(tmp_path: Path, selector: str, number: int) -> None:
    study = study_of(tmp_path, f"{STUDY}[selectors.chosen]\n{selector}\n")
    arms = recorded_arms(study, records_of(study, *RATES))
    assert sum(matches(study.selectors["chosen"], arm) for arm in arms) == number


def test_a_configuration_of_other_times_is_no_arm(study: Study) -> None:
    def old(config: dict[str, Any]) -> None:
        config["model"]["kernel"] = {"kind": "softmax"}

    assert recorded_arms(study, changed(records_of(study, *RATES), old)) == []
