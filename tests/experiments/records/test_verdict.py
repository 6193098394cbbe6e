"""The rules by which evidence is decided, and the verdicts on claims of recorded studies."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.config.load import arms_of
from leadline.experiments.config.study import Study
from leadline.experiments.records.arms import matches, recorded_arms
from leadline.experiments.records.captions import ledger_column, scale
from leadline.experiments.records.left_out import LeftOut
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.record import Record
from leadline.experiments.records.sequential import SeedPlan
from leadline.experiments.records.verdict import Verdict, predicate, verdicts, with_q
from leadline.experiments.runtime.errors import UserError
from tests.experiments.configured import EXTRAPOLATION, studies_of
from tests.experiments.records.claimed import ABOVE_HALF, changed, record

HEAD = f"""{EXTRAPOLATION}
[arms.plain]
[arms.biased]
model.sink = {{ kind = "key_bias" }}
[selectors]
softmax = {{ "model.normalizer" = "softmax", "model.sink" = "none" }}
key_bias = {{ "model.sink" = {{ kind = "key_bias" }} }}
[[claims]]
id = "less"
statement = "A key bias gives a lower sink rate than softmax."
"""
CLAIM = f"""{HEAD}left = {{ quantity = "sink_rate", arm = "key_bias" }}
relation = "below"
right = {{ quantity = "sink_rate", arm = "softmax" }}
"""
EITHER = HEAD.replace("[[claims]]", 'either = { "model.normalizer" = "softmax", "model.sink" = "any" }\n[[claims]]') + (
    'left = { quantity = "sink_rate", arm = "either" }\nrelation = "above"\nright = 0.0\ncases = "arms"\n'
)
WHEN = 'when = [{ term = { quantity = "sink_rate", arm = "softmax" }, relation = "above", value = 0.05, reason = "no sink" }]'
RATES = ((0.5, 0.1), (0.6, 0.2), (0.55, 0.14))
Change = Callable[[list[Record]], Sequence[Record]]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return studies_of(tmp_path, CLAIM)[0]


def records_of(study: Study, rates: Sequence[tuple[float, float]] = RATES, **changes: object) -> list[Record]:
    """A record an arm and seed, with the sink rates of `plain` and `biased`."""
    return [
        record(study.study, arm.name, number, seed, arm.model_dump(), **changes).model_copy(
            update={"measurements": (Measurement("sink_rate", row[number], "share"),)}
        )
        for number, arm in enumerate(arms_of(study, Path()))
        for seed, row in enumerate(rates)
    ]


def judged(study: Study, records: Sequence[Record]) -> Verdict:
    (verdict,) = verdicts({study.study: study}, records)
    return verdict


def updated(**fields: Any) -> Change:
    return lambda records: [entry.model_copy(update=fields) for entry in records]


def configured(section: str, **settings: Any) -> Change:
    return lambda records: changed(records, lambda config: config[section].update(settings))


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


def of_one_arm(study: Study, rates: tuple[float | None, ...], losses: tuple[float, ...]) -> list[Record]:
    """Records of softmax alone, of which some lack the sink rate."""
    plain = records_of(study)[: len(rates)]
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
    verdict = judged(study, of_one_arm(study, rates, (1.0, 9.0, 1.01)))
    assert (verdict.outcome, verdict.n) == (outcome, n)
    assert reason in verdict.reason


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
