"""The rules by which evidence is decided, and the verdicts on claims of recorded studies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.config.study import Study
from leadline.experiments.records.arms import matches, recorded_arms
from leadline.experiments.records.captions import ledger_column, scale
from leadline.experiments.records.left_out import LeftOut
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.sequential import SeedPlan
from leadline.experiments.records.verdict import predicate, verdicts, with_q
from leadline.experiments.runtime.errors import UserError
from tests.experiments.configured import studies_of
from tests.experiments.records.claimed import ABOVE_HALF
from tests.experiments.records.key_bias import CLAIM, HEAD, RATES, Change, configured, judged, records_of, updated


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return studies_of(tmp_path, CLAIM)[0]


def test_documents_do_not_stand_for_seeds(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, CLAIM)
    values = (0.3, 0.31, 0.32, 0.33)
    records = [
        entry.model_copy(update={"left_out": (LeftOut("sink_rate", {}, values),)}) for entry in records_of(study, RATES[:1])
    ]
    verdict = judged(study, records)
    assert (verdict.outcome, verdict.interval, verdict.more_seeds) == ("undecided", None, True)
    assert verdict.reason == "1 seed: an interval needs two or more"


def test_a_verdict_has_figures_seeds_interval_and_scale(study: Study) -> None:
    verdict = judged(study, records_of(study, parameters=1_230_000, steps=10, tokens=640))
    assert verdict.outcome == "holds" and verdict.n == 3 and verdict.own
    assert verdict.measured == "key bias: sink rate 0.147 ± 0.050; softmax: sink rate 0.550 ± 0.050"
    margins = [0.4, 0.4, 0.41]
    assert verdict.interval == pytest.approx(stats.t.interval(0.95, 2, np.mean(margins), stats.sem(margins)))
    assert verdict.scale == "small language model, 2 layers of width 128, 1.23M parameters, 10 steps, 640 tokens"


@pytest.mark.parametrize(
    ("change", "kind", "column"),
    [
        (updated(), "small language model", "small language model"),
        (configured("data", kind="backcopy"), "toy task", "toy task"),
        (
            updated(device={"platform": "gpu", "kind": "any", "count": 1}),
            "small language model on GPU",
            "trained on an accelerator",
        ),
        (updated(steps=0), "exact", "without training"),
    ],
)
def test_records_say_the_kind_of_models_and_where_they_were_trained(
    study: Study, change: Change, kind: str, column: str
) -> None:
    records = change(records_of(study))
    assert scale(records).split(",")[0] == kind
    assert ledger_column(records) == column


def test_models_whose_recipe_was_chosen_for_a_sink_have_a_column_of_their_own(study: Study) -> None:
    records = records_of(study)
    assert ledger_column(records, sink_recipe=True) == "small language model, recipe chosen for a sink"
    assert {verdict.column for verdict in verdicts({"a": study.model_copy(update={"sink_recipe": True})}, records)} == {
        "small language model, recipe chosen for a sink"
    }


def test_a_statement_that_was_shown_at_a_larger_scale_is_not_shown_here(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, CLAIM + 'source = "gu2025"\nshown_at = "7B parameters"\n')
    verdict = judged(study, records_of(study, [(high, low) for low, high in RATES], parameters=116_000))
    assert verdict.outcome == "fails"
    assert verdict.reason.endswith("not shown at 116k parameters; it was shown at 7B parameters")


@pytest.mark.parametrize("claim", [CLAIM, f'{HEAD}function = "{ABOVE_HALF}"\narms = "softmax"\n'])
def test_a_look_of_several_has_its_part_of_the_error_alone(claim: str, tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, claim)
    planned, records = study.model_copy(update={"most_seeds": 12}), records_of(study)
    assert judged(planned, records).level == pytest.approx(SeedPlan(len(study.seeds), 12).level(3))
    assert np.ptp(judged(planned, records).interval or 0) > np.ptp(judged(study, records).interval or 0)


def test_an_erratum_stands_in_place_of_the_statement_that_was_locked(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, CLAIM + 'erratum = "It cuts it."\n')
    verdict = judged(study, records_of(study))
    assert verdict.statement == "It cuts it."
    assert verdict.reason.endswith(f"erratum: the statement was locked as “{study.claims[0].statement}”")


OVER = '{{ quantity = "perplexity", arm = "{arm}", at = {{ length = 8 }} }}'
RATIO = f'{{{{ quantity = "perplexity", arm = "{{arm}}", at = {{{{ length = 64 }}}}, over = {OVER} }}}}'


def test_the_text_of_a_ratio_is_that_of_both_of_its_numbers(tmp_path: Path) -> None:
    ratios = f"left = {RATIO.format(arm='key_bias')}\nright = {RATIO.format(arm='softmax')}\n"
    (study,) = studies_of(tmp_path, f'{HEAD}relation = "below"\n{ratios}')
    told = [
        entry
        for length, windows in ((64, 3.0), (8, 9.0))
        for entry in (
            Measurement("perplexity", 4.0, "", length=length),
            Measurement("windows", windows, "", length=length, of="perplexity"),
        )
    ]
    records = [entry.model_copy(update={"measurements": tuple(told)}) for entry in records_of(study)]
    assert judged(study, records).windows == "3 windows and 9 windows"


def test_a_function_decides_what_a_model_that_diverged_counts_as(tmp_path: Path) -> None:
    text = f'{HEAD}function = "{ABOVE_HALF}"\narms = "softmax"\n'
    (study,) = studies_of(tmp_path, text)
    records = records_of(study)
    verdict = judged(study, [*updated(status="diverged")(records[:1]), *records[1:]])
    assert verdict.reason.endswith("1 model diverged")


def test_a_function_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    (study,) = studies_of(tmp_path, HEAD + 'function = "leadline.nowhere:predicate"\narms = "softmax"\n')
    with pytest.raises(UserError, match=r"leadline\.nowhere"):
        judged(study, records_of(study))


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
        ('"model.sink" = "any"\n"model.window" = false', 2),
        ('"model.sink" = "any"\n"model.window" = "none"', 2),
        *((f'"model.sink" = "any"\n"model.windw" = {value}', 0) for value in ("false", "true", '"none"', '"any"')),
    ],
)
def test_selectors_match_by_value(tmp_path: Path, selector: str, number: int) -> None:
    (study,) = studies_of(tmp_path, f"{CLAIM}[selectors.chosen]\n{selector}\n")
    arms = recorded_arms(study, records_of(study))
    assert sum(matches(study.selectors["chosen"], arm) for arm in arms) == number


def test_a_configuration_of_other_times_is_no_arm(study: Study) -> None:
    assert recorded_arms(study, configured("model", kernel={"kind": "softmax"})(records_of(study))) == []


def test_q_values_are_those_of_all_verdicts_together(study: Study) -> None:
    verdict = judged(study, records_of(study))
    several = with_q([replace(verdict, p=p) for p in (0.01, None, 0.04, 0.03)])
    assert [entry.q for entry in several] == pytest.approx([0.03, None, 0.04, 0.04])
    assert judged(study, records_of(study)).q == verdict.p
    other = study.model_copy(update={"study": "other"})
    records = [*records_of(study), *records_of(other, ((0.5, 0.1), (0.6, 0.5), (0.55, 0.14)))]
    of_both = verdicts({study.study: study, "other": other}, records)
    assert [entry.q for entry in of_both] == pytest.approx([*stats.false_discovery_control([entry.p for entry in of_both])])


def test_a_claim_on_perplexity_has_an_outcome_by_each_protocol(tmp_path: Path) -> None:
    last = 'quantity = "perplexity", at = { protocol = "last", last = 8 }'
    text = CLAIM.replace('quantity = "sink_rate"', last)
    (study,) = studies_of(tmp_path, text)
    protocols: list[dict[str, Any]] = [{}, {"protocol": "documents"}, {"protocol": "last", "last": 8}]
    records = [
        record.model_copy(
            update={
                "measurements": tuple(
                    Measurement("perplexity", 5.0 + 0.01 * record.seed * len(record.arm) + (record.arm == low), "1", **dims)
                    for dims, low in zip(protocols, ("biased", "biased", "plain"), strict=True)
                )
            }
        )
        for record in records_of(study)
    ]
    verdict = judged(study, records)
    assert verdict.outcome == "holds"
    assert verdict.protocols == {"tokens": "fails", "documents": "fails", "last 8": "holds"}


@pytest.mark.parametrize(
    ("source", "reason"), [("count = lengths", "NameError"), ("def broken(:", "SyntaxError"), ("", "AttributeError")]
)
def test_a_function_that_cannot_be_had_is_named(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"mine_{reason.lower()}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=rf"function = 'mine_\w+:broken': {reason}: .*; write it as package.module:function"):
        predicate(f"mine_{reason.lower()}:broken")
