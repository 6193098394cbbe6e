"""Every exact claim on the RoPE base, on records that support it and on records that do not."""

from collections.abc import Mapping

import pytest

from experiments.evidence import judge
from experiments.record import Record
from experiments.studies import men_table_4
from experiments.studies.published_bases import BLOG, MEN, SU, PublishedBases
from experiments.studies.rope_base import MEN_TABLE_4
from experiments.studies.rope_base_claims import ROPE_BASE
from tests.experiments.synthetic_records import measured, record

CLAIMS = {claim.id: claim for claim in ROPE_BASE}
CONFIG = {"head_dim": 128, "inclusive": False, "every": 1}


def bound(length: int, printed: Mapping[str, float], infimum: float, largest: float, least: float, **config: object) -> Record:
    entries = {
        source: {"value": value, "first_violation": 4079 if least < 0 else None, "violations": 2, "minimum": least}
        for source, value in printed.items()
    }
    values = measured({"infimum": infimum, "largest_infeasible": largest}, "1")
    own = {**CONFIG, "length": length, **config}
    return record("rope_base", f"of {length}", measurements=values, data={"published": entries}, config=own, steps=0)


def table(printed: PublishedBases, infimum: float = 1.0, least: float = 0.5) -> list[Record]:
    """Bounds at every printed length, the infimum as a multiple of what is printed."""
    return [bound(n, {printed.source: base}, infimum * base, 9e9, least) for n, base in printed.bases.items()]


def law(exponent: float) -> list[Record]:
    """Five lengths with a little scatter about a power law."""
    scatter = (1.01, 0.99, 1.0, 0.99, 1.01)
    return [bound(1024 * 2**k, {}, wobble * 4e3 * 2 ** (k * exponent), 9e9, 0.5) for k, wobble in enumerate(scatter)]


def counts(last: int) -> list[Record]:
    values = {row.measurement: float(row.printed) for row in men_table_4.ROWS} | {men_table_4.ROWS[-1].measurement: float(last)}
    return [record("rope_base", MEN_TABLE_4, measurements=measured(values), config={"head_dim": 128}, steps=0)]


def spoilt(records: list[Record], printed: PublishedBases) -> list[Record]:
    """All but the last of them, and one that fails."""
    length, base = list(printed.bases.items())[-1]
    return [*records[:-1], bound(length, {printed.source: base}, 0.9 * base, 9e9, -1e-9)]


CASES = {
    "men-4k": ([bound(4096, {MEN.source: 2.7e4}, 2.6e4, 9e9, 0.01)], [bound(4096, {MEN.source: 2.7e4}, 2.6e4, 9e9, -0.5)]),
    "men-8k": ([bound(8192, {MEN.source: 8.4e4}, 8.3e4, 9e9, 0.0)], [bound(8192, {MEN.source: 8.4e4}, 8.3e4, 9e9, -1e-9)]),
    "men-2k-smallest": (
        [bound(2048, {MEN.source: 1.6e4}, 15999.0, 9e9, 1)],
        [bound(2048, {MEN.source: 1.6e4}, 11587.3, 9e9, 1)],
    ),
    "su-2k-smallest": ([bound(2048, {SU.source: 1.2e4}, 11587.3, 9e9, 1)], [bound(2048, {SU.source: 1.2e4}, 11400.0, 9e9, 1)]),
    "men-feasible": (table(MEN), spoilt(table(MEN), MEN)),
    "su-feasible": (table(SU), spoilt(table(SU), SU)),
    "blog-feasible": (table(BLOG), spoilt(table(BLOG), BLOG)),
    "men-smallest": (table(MEN, 1.005), spoilt(table(MEN, 1.005), MEN)),
    "su-smallest": (table(SU, 1.005), spoilt(table(SU, 1.005), SU)),
    "men-threshold": ([bound(128, {}, 311.0, 311.0, 1)], [bound(4096, {}, 26952.4, 58789.0, 1)]),
    "su-linear": (law(1.0), law(1.4)),
    "men-power-law": (law(1.628), law(1.4)),
    "men-table-4": (counts(2554), counts(2553)),
}


def test_every_claim_is_tried() -> None:
    assert set(CASES) == set(CLAIMS)


@pytest.mark.parametrize("claim", CASES)
def test_exact_claims_go_by_their_sign(claim: str) -> None:
    supporting, contrary = CASES[claim]
    assert judge(CLAIMS[claim], supporting).verdict == "holds"
    assert judge(CLAIMS[claim], contrary).verdict == "fails"
    assert judge(CLAIMS[claim], []).verdict == "not measured"


@pytest.mark.parametrize("config", [{"inclusive": True}, {"every": 64}, {"head_dim": 64}])
@pytest.mark.parametrize("claim", sorted(set(CASES) - {"men-table-4"}))
def test_another_convention_or_head_dim_does_not_count(claim: str, config: dict[str, object]) -> None:
    changed = [made.model_copy(update={"config": {**made.config, **config}}) for made in CASES[claim][0]]
    assert judge(CLAIMS[claim], changed).verdict == "not measured"


def test_four_lengths_give_no_exponent() -> None:
    assert judge(CLAIMS["su-linear"], law(1.0)[:4]).verdict == "not measured"


def test_what_fails_is_named() -> None:
    judged = judge(CLAIMS["men-feasible"], spoilt(table(MEN), MEN))
    assert (judged.measured, judged.n) == ("1024k: 5.1e+08 fails, first at m = 4079", 11)
    assert judge(CLAIMS["men-feasible"], table(MEN)).measured == "all 11 hold"
