"""What two configurations differ in, on synthetic records: settings, and results beyond noise."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.runs.compare import Comparison, beyond_noise, compared, difference, rows
from tests.experiments.synthetic_records import entry, measured, write_records

DIGESTS = {"plain": "0" * 12, "gated": "1" * 12}


def written(results: Path, *, study: str = "mine", shift: float = 0.0, seeds: tuple[int, ...] = (0, 1, 2, 3)) -> Path:
    """Two arms of which the second has a far smaller sink rate and the same loss, up to noise."""
    for arm, rate in (("plain", 0.9), ("gated", 0.1)):
        noise = np.random.default_rng(round(10 * rate)).normal(scale=0.01, size=(2, 9))
        write_records(
            results,
            *(
                entry(
                    study,
                    arm,
                    seed,
                    measured("sink_rate", rate + shift + noise[0, seed]),
                    measured("loss", 2.0 + noise[1, seed]),
                    measured("loss", 2.0, layer=1),
                    arm_hash=DIGESTS[arm],
                    config={"model": {"gate": arm}},
                )
                for seed in seeds
            ),
        )
    return results


def arms(results: Path, study: str = "mine") -> tuple[Path, Path]:
    return tuple(results / study / f"{arm}-{digest}" for arm, digest in DIGESTS.items())  # pyright: ignore[reportReturnType]


def settings_of(comparison: Comparison) -> dict[str, tuple[str, str]]:
    return {row["setting"]: (row["A"], row["B"]) for row in comparison.settings}


def test_two_arms_differ_in_their_key_and_beyond_noise_in_what_it_changes(tmp_path: Path) -> None:
    comparison = compared(*arms(written(tmp_path)))
    assert settings_of(comparison) == {"model.gate": ("plain", "gated")}
    assert [(entry.reading.quantity, entry.beyond_noise) for entry in comparison.results] == [
        ("sink_rate", True),
        ("loss", False),
    ]
    [row] = rows(beyond_noise(comparison))
    assert row["quantity"] == "sink rate" and -0.85 < float(row["B - A"]) < -0.75
    assert [row["quantity"] for row in rows(comparison.results)] == ["sink rate", "loss (nats)"]
    assert len(compared(*arms(tmp_path), layers=True).results) == 3


def test_q_values_are_those_of_all_quantities_and_arms_together(tmp_path: Path) -> None:
    results = compared(written(tmp_path / "a"), written(tmp_path / "b", seeds=(4, 5, 6, 7))).results
    assert [entry.q for entry in results] == pytest.approx([*stats.false_discovery_control([entry.p for entry in results])])


def test_folders_are_compared_arm_by_arm_and_what_is_alone_is_named(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a"), written(tmp_path / "b", shift=0.05)
    write_records(second, entry("mine", "third", 0, measured("loss", 1.0), arm_hash="2" * 12))
    comparison = compared(first, second)
    assert comparison.settings == []
    assert comparison.notes == [f"mine, third: only in {second}"]
    assert [row["arm"] for row in rows(beyond_noise(comparison))] == ["mine, gated", "mine, plain"]


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    results = written(tmp_path)
    comparison = compared(*(path / "s0" for path in arms(results)))
    assert {(entry.interval, entry.q) for entry in comparison.results} == {(None, None)}
    assert {row["95 % interval"] for row in rows(beyond_noise(comparison))} == {"one seed"}
    [printed] = [entry.as_json() for entry in comparison.results if entry.reading.quantity == "sink_rate"]
    assert (printed["dims"], printed["unit"], printed["interval"]) == ({}, "share", None)
    assert set(printed["A"]) == set(printed["B"]) == {0} and printed["B"][0] < printed["A"][0]


@pytest.mark.parametrize("common", [True, False])
def test_the_interval_and_the_p_value_are_those_of_the_t_tests(common: bool) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 5)).tolist()
    second = dict(enumerate(b, start=0 if common else 5))
    test = stats.ttest_rel(b, a) if common else stats.ttest_ind(b, a, equal_var=False)
    interval, p = difference(dict(enumerate(a)), second)
    assert (interval, p) == (pytest.approx(test.confidence_interval(0.95)), pytest.approx(test.pvalue))  # pyright: ignore


@pytest.mark.parametrize(("values", "p"), [((1.0, 1.0), 1.0), ((2.0, 2.0), None)])
def test_values_without_spread_are_the_same_or_say_nothing_of_other_seeds(values: tuple[float, float], p: float | None) -> None:
    for start in (0, 2):
        assert difference({0: 1.0, 1: 1.0}, dict(enumerate(values, start))) == (None, p)


@pytest.mark.parametrize("start", [0, 2], ids=["common", "others"])
def test_values_whose_squares_are_beyond_floats_are_not_judged(start: int) -> None:
    assert difference({0: 1.0, 1: 2.0}, {start: 1e200, start + 1: 3e200}) == (None, None)


def test_a_constant_difference_that_is_rounded_says_nothing_of_other_seeds() -> None:
    first = dict(enumerate(np.random.default_rng(2).uniform(10, 60, size=8).tolist()))
    assert difference(first, {seed: value + 1e-4 for seed, value in first.items()}) == (None, None)


def test_equal_arms_rarely_differ_beyond_noise() -> None:
    """Of many comparisons of equal arms at most about 5 % have p < 0.05."""
    draws = np.random.default_rng(1).normal(size=(2000, 2, 4))
    p_values = [difference(dict(enumerate(a)), dict(enumerate(b)))[1] for a, b in draws.tolist()]
    assert 0.03 < np.mean([p is not None and p < 0.05 for p in p_values]) < 0.07
