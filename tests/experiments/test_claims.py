import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.claims import LEDGER, claims_table, ledger_table, verdicts, verdicts_table
from experiments.evidence import Claim, Evidence, judge, mean_interval
from experiments.record import Record, read_records
from experiments.studies.anatomy_claims import DEPTH, GATE_POSITION, SINKS_LM, STABILITY
from experiments.studies.backcopy_claims import BACKCOPY
from experiments.studies.base_length_claims import BASE_VS_LENGTH
from experiments.studies.multilingual import MULTILINGUAL
from experiments.studies.precision import PRECISION
from experiments.studies.retrieval_claims import RETRIEVAL
from experiments.studies.rope_base_claims import ROPE_BASE
from experiments.studies.streaming_claims import STREAMING
from experiments.studies.tokens_claims import TOKENS
from experiments.studies.vocabulary import VOCABULARY
from tests.experiments.synthetic_records import measured, record

# For each claim, invented (arm, measurement) values of one seed that support it and that contradict it.
_FIRST = ("softmax", "first_token_mass"), ("headwise_gate", "first_token_mass")
_ELEMENT = ("softmax", "first_token_mass"), ("elementwise_gate", "first_token_mass")
_GATES = ("value_gate", "first_token_mass"), ("elementwise_gate", "first_token_mass")
_PPL = "perplexity"
_TRAINED_AT = ("rope", f"{_PPL}.none.128")
_PI = [_TRAINED_AT, ("rope", f"{_PPL}.pi.512")]


def _last64(arm: str, far: int) -> list[tuple[str, str]]:
    return [(arm, f"{_PPL}_last64.none.{length}") for length in (128, far)]


def _risen(*ways: tuple[str, str, int]) -> list[tuple[str, str]]:
    """Of each (arm, extension, length) the perplexity as trained at 128, and there."""
    return [(arm, name) for arm, way, far in ways for name in (f"{_PPL}.none.128", f"{_PPL}.{way}.{far}")]


TRAINED: dict[str, tuple[Sequence[tuple[str, str]], tuple[float, ...], tuple[float, ...]]] = {
    "guo-sink": ([("softmax", "bos_mass")], (0.9,), (0.3,)),
    "guo-value-drain": ([("softmax", "bos_value_ratio")], (0.2,), (0.8,)),
    "qiu-headwise": (_FIRST, (0.8, 0.1), (0.8, 0.7)),
    "qiu-elementwise": (_ELEMENT, (0.8, 0.1), (0.8, 0.7)),
    "qiu-value-gate": (_GATES, (0.8, 0.1), (0.1, 0.8)),
    "qiu-activations": ([("softmax", "activation_ratio"), ("headwise_gate", "activation_ratio")], (14, 6), (6, 14)),
    "qiu-loss": ([("softmax", "loss"), ("headwise_gate", "loss")], (3.2, 3.0), (3.0, 3.2)),
    "zuhri-off-by-one-reduces": ([("softmax", "sink_rate"), ("off_by_one", "sink_rate")], (0.9, 0.4), (0.4, 0.9)),
    "zuhri-off-by-one-remains": ([("softmax", "sink_rate"), ("off_by_one", "sink_rate")], (0.9, 0.4), (0.9, 0.0)),
    "zuhri-logit-reduces": ([("softmax", "sink_rate"), ("learned_logit", "sink_rate")], (0.9, 0.4), (0.4, 0.9)),
    "zuhri-logit-remains": ([("softmax", "sink_rate"), ("learned_logit", "sink_rate")], (0.9, 0.4), (0.9, 0.0)),
    "press-rope": ([("rope", f"{_PPL}_last64.none.128"), ("rope", f"{_PPL}_last64.none.1024")], (5, 19), (5, 6)),
    "press-alibi-flat": ([("alibi", f"{_PPL}.none.128"), ("alibi", f"{_PPL}.none.1024")], (6, 5.9), (6, 9)),
    "press-alibi-rope": ([("rope", f"{_PPL}.none.1024"), ("alibi", f"{_PPL}.none.1024")], (11, 6), (6, 11)),
    "chen-pi": ([("rope", f"{_PPL}.none.512"), ("rope", f"{_PPL}.pi.512")], (14, 7), (7, 14)),
    "bloc97-ntk": ([("rope", f"{_PPL}.none.1024"), ("rope", f"{_PPL}.ntk.1024")], (11, 8), (8, 11)),
    "yarn-pi": ([("rope", f"{_PPL}.pi.1024"), ("rope", f"{_PPL}.yarn.1024")], (19, 8), (8, 19)),
    "yarn-ntk-far": ([("rope", f"{_PPL}.ntk.1024"), ("rope", f"{_PPL}.yarn.1024")], (9, 8), (8, 9)),
    "chen-pi-alone": (_PI, (5, 9), (5, 5.1)),
    "chen-pi-tuned": ([_TRAINED_AT, ("tuned_pi", f"{_PPL}.none.512")], (5, 5.1), (5, 6)),
    "bloc97-ntk-alone": ([_TRAINED_AT, ("rope", f"{_PPL}.ntk.256")], (5, 5.1), (5, 6)),
    "peng-temperature": ([("rope", f"{_PPL}.ntk_by_parts.1024"), ("rope", f"{_PPL}.yarn.1024")], (8, 7), (7, 8)),
    "peng-tuned-within": ([("tuned_ntk", f"{_PPL}.none.512"), ("tuned_yarn", f"{_PPL}.none.512")], (6, 5), (5, 6)),
    "peng-tuned-beyond": ([("tuned_pi", f"{_PPL}.none.1024"), ("tuned_yarn", f"{_PPL}.none.1024")], (8, 6), (6, 8)),
    "press-alibi-flat-32": ([("alibi", f"{_PPL}.none.128"), ("alibi", f"{_PPL}.none.4096")], (6, 5.9), (6, 9)),
    "press-sinusoidal": (_last64("sinusoidal", 512), (5, 19), (5, 6)),
    "press-learned": (_last64("learned", 512), (5, 19), (5, 6)),
    "press-t5": ([("rope", f"{_PPL}.none.512"), ("t5", f"{_PPL}.none.512")], (9, 6), (6, 9)),
    "liu-small-base": ([("tuned_short", f"{_PPL}.none.1024"), ("tuned_base20", f"{_PPL}.none.1024")], (11, 6), (6, 11)),
    "kazemnejad-nope": (_risen(("rope", "none", 1024), ("nope", "none", 1024)), (5, 11, 8, 9), (5, 6, 8, 16)),
    "qiu-yarn": (_risen(("rope", "yarn", 512), ("rope_gated", "yarn", 512)), (5, 7, 5, 6), (5, 6, 5, 7)),
    "gopalakrishnan-pope": (_risen(("rope", "none", 1024), ("pope", "none", 1024)), (5, 11, 5, 6), (5, 6, 5, 11)),
    "yarn-ntk-near": ([("rope", f"{_PPL}.ntk.256"), ("rope", f"{_PPL}.yarn.256")], (5, 6), (6, 5)),
}
_DEPTHS = ("first", "middle", "last")
for _length in (64, 256):
    TRAINED[f"liu-middle-rope-{_length}"] = (
        [("rope", f"accuracy_{where}.key_value.{_length}") for where in _DEPTHS],
        (0.9, 0.5, 0.8),
        (0.9, 0.8, 0.5),
    )
for _task in ("copy", "addition"):
    for _arm in ("rope", "alibi"):
        pair = [("nope", f"accuracy.{_task}.128"), (_arm, f"accuracy.{_task}.128")]
        TRAINED[f"kazemnejad-{_task}-{_arm}"] = (pair, (0.6, 0.2), (0.2, 0.6))
CLAIMS = {claim.id: claim for claim in LEDGER}


def _records(claim: str, seeds: Sequence[tuple[float, ...]]) -> list[Record]:
    """One synthetic record an arm and seed, with the claim's measurements at the given values."""
    quantities = TRAINED[claim][0]
    made = []
    for seed, row in enumerate(seeds):
        by_arm: dict[str, dict[str, float | None]] = {}
        for (arm, name), value in zip(quantities, row, strict=True):
            by_arm.setdefault(arm, {})[name] = value
        made += [record(CLAIMS[claim].study, arm, seed, measurements=measured(m)) for arm, m in by_arm.items()]
    return made


def _jitter(row: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Three seeds around a row; the factor differs by a per cent, so that there is a spread."""
    return [tuple(value * factor for value in row) for factor in (0.99, 1.0, 1.01)]


def test_every_claim_is_tried_below() -> None:
    of_sinks = (*BACKCOPY, *SINKS_LM, *GATE_POSITION, *STABILITY, *DEPTH)
    of_tokens = (*TOKENS, *MULTILINGUAL, *VOCABULARY)
    in_studies = (
        *ROPE_BASE,
        *BASE_VS_LENGTH,
        *PRECISION,
        *RETRIEVAL,
        *STREAMING,
        *of_sinks,
        *of_tokens,
    )  # tests/experiments/studies
    elsewhere = {claim.id for claim in in_studies}
    assert set(CLAIMS) == set(TRAINED) | elsewhere
    assert len(LEDGER) == len(CLAIMS)


@pytest.mark.parametrize("claim", TRAINED)
def test_trained_claims_go_both_ways(claim: str) -> None:
    _, supporting, contrary = TRAINED[claim]
    assert judge(CLAIMS[claim], _records(claim, _jitter(supporting))).verdict == "holds"
    assert judge(CLAIMS[claim], _records(claim, _jitter(contrary))).verdict == "fails"
    disagreeing = judge(CLAIMS[claim], _records(claim, [supporting, contrary, supporting]))
    assert (disagreeing.verdict, disagreeing.n) == ("mixed", 3)
    single = judge(CLAIMS[claim], _records(claim, [supporting]))
    assert (single.verdict, single.reason) == ("mixed", "one seed")
    assert judge(CLAIMS[claim], []).verdict == "not measured"


def test_records_of_another_study_do_not_count() -> None:
    stray = [record("other", "softmax", seed, measurements=measured({"bos_mass": 0.9})) for seed in range(3)]
    assert judge(CLAIMS["guo-sink"], stray).verdict == "not measured"


def test_diverged_seeds_do_not_count() -> None:
    made = _records("guo-sink", _jitter((0.9,)))
    lost = [one.model_copy(update={"status": "diverged"}) for one in made]
    judged = judge(CLAIMS["guo-sink"], lost)
    assert judged.verdict == "not measured"
    assert "3 of 3 records diverged" in judged.reason
    assert judge(CLAIMS["guo-sink"], [*made[:2], lost[2]]).n == 2


def test_arms_are_paired_by_seed() -> None:
    made = _records("qiu-headwise", _jitter((0.8, 0.1)))
    kept = [one for one in made if not (one.arm == "softmax" and one.seed == 1)]
    assert judge(CLAIMS["qiu-headwise"], kept).n == 2


def _with_margins(*margins: float) -> Claim:
    return Claim("x", "x", "x", "x", "sinks", lambda _records: Evidence("x", margins, exact=False))


def test_no_spread_is_judged_by_the_mean() -> None:
    assert judge(_with_margins(0.5, 0.5, 0.5), []).verdict == "holds"
    assert judge(_with_margins(-0.5, -0.5), []).verdict == "fails"
    nothing = judge(_with_margins(0.0, 0.0, 0.0), [])
    assert (nothing.verdict, nothing.reason) == ("mixed", "no difference in any seed")
    assert judge(_with_margins(math.inf, 1.0), []).verdict == "mixed"


def test_interval_is_students() -> None:
    margins = [0.2, 0.5, 0.9, 0.4]
    expected = stats.ttest_1samp(margins, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(mean_interval(margins), (expected.low, expected.high), rtol=1e-12)
    with pytest.raises(ValueError, match="two seeds"):
        mean_interval([1.0])


def test_scale_is_read_from_the_records(synthetic: Path) -> None:
    judged = {v.id: v for v in verdicts([entry.record for entry in read_records(synthetic)])}
    assert judged["guo-sink"].scale == "58k parameters, 1 layer, width 64, 600 steps, 1.23M tokens"
    assert judged["men-4k"].scale == "head dim 128, exact"
    assert judged["men-4k"].verdict == "fails"
    assert "first at m = 4079" in judged["men-4k"].measured


def test_empty_ledger_is_all_unmeasured() -> None:
    judged = verdicts([])
    assert {v.verdict for v in judged} == {"not measured"}
    assert len(claims_table(judged).rows) == len(LEDGER)


def test_the_table_of_verdicts_counts_what_no_record_speaks_of() -> None:
    judged = verdicts([])
    table = verdicts_table(judged)
    assert table.rows == ()
    assert table.notes == (f"{len(judged)} more claims of the ledger have no records here",)
    measured = replace(judged[0], measured="1.0", verdict="holds")
    table = verdicts_table([measured, *judged[1:]])
    assert [row[0] for row in table.rows] == [measured.statement]
    assert table.notes[0].startswith(f"{len(judged) - 1} more")
    assert verdicts_table([measured]).notes == ()


def test_the_ledger_is_counted_by_study() -> None:
    judged = verdicts([])
    measured = [replace(judged[0], verdict="holds"), replace(judged[1], verdict="fails"), *judged[2:]]
    table = ledger_table(measured)
    own = sum(verdict.study == judged[0].study for verdict in judged)
    assert table.columns == ("study", "holds", "mixed", "fails", "not measured")
    assert table.rows[0] == (judged[0].study, "1", "0", "1", str(own - 2))
    assert table.rows[-1] == ("all", "1", "0", "1", str(len(judged) - 2))
