"""What holds for the jobs of every kind of [exact], and the numbers of those that need no tokenizer."""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.base import unknown_key
from leadline.experiments.config.exact import (
    AttentionArithmetic,
    BaseBound,
    Coverage,
    Embeddings,
    Exact,
    Multilingual,
    Norms,
    Precision,
    Released,
    TokenizerComparison,
    Tokens,
)
from leadline.experiments.config.load import load_studies
from leadline.experiments.config.study import FOLDER
from leadline.experiments.measure.bound import HEAD_DIM, MEN, start
from leadline.experiments.measure.exact import base_bound
from leadline.experiments.measure.exact.base_bound import feasible_bases, jobs
from leadline.experiments.measure.exact.job import Computed
from leadline.experiments.measure.exact.precision import LABELS, phase_errors
from leadline.experiments.measure.exact.registry import jobs_of, settings_of
from leadline.experiments.records.arms import has, leaves_of
from leadline.experiments.records.measurement import Point, measurements_of, reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.model.base_bound.bound import restricted
from leadline.model.positions.frequencies import inverse_frequencies
from tests.experiments.measure.exact.jobs import computed, points_of

CONFIGS = Path(__file__).parents[4] / "configs"
KINDS = ("base_bound", "precision", "attention_arithmetic", "embeddings", "tokens", "coverage", "multilingual", "released")
# Two compile many programs, which test_attention_arithmetic and test_embeddings do too.
COMPUTED = [pytest.param(kind, marks=pytest.mark.slow) if kind in KINDS[2:4] else kind for kind in KINDS]
Results = Callable[[str], dict[str, Computed]]
# A decoder, and an encoder without RoPE.
MODELS = {
    "decoder": {"label": "a decoder", "vocabulary": 7, "context": 64, "model": {"position": {"kind": "rope", "base": 100.0}}},
    "encoder": {"label": "an encoder", "vocabulary": 7, "context": 64, "model": {"position": "learned"}, "encoder": True},
}
TEXT = {"label": "this file", "unit": "words", "files": (__file__,)}
BOUNDS = BaseBound(head_dims=(32, 128), lengths=(512, 64, 4096))
ARITHMETIC = AttentionArithmetic(enumerated=(2,), head_dims=(4,), repeated=8, permuted=3, head_dim=8, width=16, heads=(1, 2))


def exact_of(kind: str, ranks: Path) -> Exact:
    """A tiny study of a kind."""
    tokenizers = {"byte": "byte", "toy": "tiktoken:toy"}
    wordpiece = TokenizerComparison(vocabularies=(220, 200), every=800)
    bpe = TokenizerComparison(vocabularies=(280, 270), every=800)
    return {
        "base_bound": BOUNDS,
        "precision": Precision(lengths=(256, 64)),
        "attention_arithmetic": ARITHMETIC,
        "embeddings": Embeddings(width=16, vocabulary=8, tokens=4, steps=3, positions=16, shift=2),
        "norms": Norms(width=8, texts=2, tokens=4),
        "tokens": Tokens(tokenizers=tokenizers, ranks=str(ranks), speed_documents=0, wordpiece=wordpiece, bpe=bpe),
        "coverage": Coverage.model_validate({"sizes": (10, 3), "texts": {"here": TEXT}}),
        "multilingual": Multilingual(vocabularies=(640, 320), exponents=(0.0, 1.0)),
        "released": Released.model_validate({"models": MODELS}),
    }[kind]


@pytest.fixture(scope="module")
def results(ranks: Path, in_use: None) -> Results:  # noqa: ARG001
    return functools.cache(lambda kind: computed(jobs_of(exact_of(kind, ranks))))


@pytest.fixture
def bounds(results: Results) -> dict[str, Point]:
    return {name: result.point for name, result in results("base_bound").items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_an_arm_that_can_be_recorded(kind: str, ranks: Path) -> None:
    jobs = jobs_of(exact_of(kind, ranks))
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    assert all(FOLDER.fullmatch(job.name) and job.label and "_" not in job.label for job in jobs if kind != "tokens")
    settings = [(type(job.settings), job.settings.model_dump_json()) for job in jobs]
    assert len(set(settings)) == len(settings)
    for place, job in enumerate(jobs):
        assert set(job.needs) <= set(names[:place])
        assert type(job.settings).model_validate_json(job.settings.model_dump_json()) == job.settings


@pytest.mark.parametrize("kind", COMPUTED)
def test_the_numbers_have_quantities_and_data_with_their_digest(kind: str, ranks: Path, results: Results) -> None:
    digests = {job.name: job.data_digest for job in jobs_of(exact_of(kind, ranks))}
    assert digests.keys() == results(kind).keys()
    for name, result in results(kind).items():
        for key, array in result.point.items():
            assert array.ndim == len(QUANTITIES[key.quantity].axes), key
        numbers = measurements_of(result.point)
        assert numbers and all(number.value is not None for number in numbers)
        data = json.loads(json.dumps(result.data))
        assert data["name"] and data.get("digest") == digests[name]


@pytest.mark.parametrize("kind", COMPUTED)
def test_the_numbers_do_not_change(kind: str, ranks: Path, results: Results) -> None:
    *_, job = (job for job in jobs_of(exact_of(kind, ranks)) if not job.needs)
    again = job.compute({}, lambda done, steps: None).point  # noqa: ARG005
    for key, array in results(kind)[job.name].point.items():
        np.testing.assert_array_equal(array, again[key])


@pytest.mark.parametrize("kind", ["tokens", "multilingual"])
def test_data_decide_the_digest(kind: str, ranks: Path, tmp_path: Path) -> None:
    (tmp_path / "eng.txt").write_text("all human beings\nare born free\n" * 9)
    exact = exact_of(kind, ranks)
    digests, others = (
        {job.name: job.data_digest for job in jobs_of(texts) if not job.name.startswith(("wordpiece", "bpe"))}
        for texts in (exact, exact.model_copy(update={"texts": (str(tmp_path),)}))
    )
    assert all(re.fullmatch("[0-9a-f]{64}", digest or "") for digest in digests.values())
    assert digests.keys() == others.keys() and set(digests.values()).isdisjoint(others.values())


# Selectors of tokenizers whose files are not in the repository.
DOWNLOADED = ("gpt2", "gpt4", "gpt4_premium", "llama2", "llama3")


@pytest.mark.parametrize("kind", [*KINDS, "norms"])
def test_every_setting_of_a_job_is_a_key_that_a_selector_may_have(kind: str, ranks: Path) -> None:
    exact = exact_of(kind, ranks)
    keys = {key for job in jobs_of(exact) for key in leaves_of(job.settings.model_dump())}
    assert [key for key in sorted(keys) if unknown_key(key, settings_of(exact))] == []


STUDIES = ("attention_arithmetic", "coverage", "embeddings", "multilingual", "precision", "released", "rope_base", "tokens")


@pytest.mark.parametrize("name", STUDIES)
def test_every_selector_of_a_study_matches_a_job(name: str) -> None:
    (study,) = load_studies(CONFIGS / f"{name}.toml")
    exact, selectors = study.exact, dict(study.selectors)
    assert exact is not None and selectors
    if isinstance(exact, Tokens):
        exact = exact.model_copy(update={"tokenizers": {"byte": "byte"}})
        selectors = {name: selector for name, selector in selectors.items() if name not in DOWNLOADED}
    settings = [job.settings.model_dump(mode="json") for job in jobs_of(exact)]
    for selector in selectors.values():
        assert any(all(has(job, key, value, None) for key, value in selector.items()) for job in settings), selector


# The model that each selector is about.
MODELS_OF_SELECTORS = {
    "bert": "bert_base",
    "gpt2": "gpt2_small",
    "llama": "llama_7b",
    "llama_2": "llama_2_7b",
    "more_ids": "llama_2_7b_128256_ids",
    "eight_heads": "llama_2_7b_8_heads",
    "llama_3": "llama_3_8b",
    "mistral": "mistral_7b",
    "no_window": "mistral_7b_no_window",
    "mixtral": "mixtral_8x7b",
    "mixtral_128k": "mixtral_8x7b_131072_tokens",
    "gemma_2": "gemma_2_9b",
    "gemma_3": "gemma_3_12b",
    "gemma_3_whole": "gemma_3_12b_no_window",
    "gpt_oss": "gpt_oss_20b",
    "qwen25": "qwen25_7b",
    "deepseek_67b": "deepseek_67b",
    "deepseek_v2": "deepseek_v2",
    "deepseek_v3": "deepseek_v3",
}


def test_a_selector_of_released_models_matches_one_by_its_shape() -> None:
    (study,) = load_studies(CONFIGS / "released.toml")
    assert study.exact is not None
    settings = {job.name: job.settings.model_dump(mode="json") for job in jobs_of(study.exact)}
    matching = {
        name: [arm for arm, shape in settings.items() if all(has(shape, key, value, None) for key, value in selector.items())]
        for name, selector in study.selectors.items()
    }
    assert matching == {name: [arm] for name, arm in MODELS_OF_SELECTORS.items()}


def test_even_shares_are_fairer_and_cost_the_largest_language_tokens(results: Results) -> None:
    points = {name: result.point for name, result in results("multilingual").items()}
    assert list(points) == [f"exponent_{exponent}_{size}" for exponent in (1, 0) for size in (320, 640)]
    for size in (320, 640):
        uneven, even = points[f"exponent_1_{size}"], points[f"exponent_0_{size}"]
        assert even[reading("gini")] < uneven[reading("gini")]
        english = reading("tokens", language="eng")
        assert even[english] > uneven[english]
        by_language = [array for key, array in even.items() if key.quantity == "tokens" and key.dims]
        assert even[reading("tokens")] == sum(by_language)


def test_phase_errors_grow_with_the_length_and_the_rounding(results: Results) -> None:
    errors = results("precision")
    assert list(errors) == list(LABELS)
    near, far = ([float(errors[name].point[reading("phase_error", length=length)]) for name in LABELS] for length in (64, 256))
    assert all(before <= after for before, after in zip(near, far, strict=True))
    assert far[0] < far[1] < far[2]


def test_the_error_of_a_rounded_frequency_grows_with_the_position() -> None:
    """bfloat16's eight bits make 1/3 0.333984375."""
    (error,) = phase_errors("bfloat16_frequencies", np.array([1 / 3]), [101])
    assert error == pytest.approx(100 * (0.333984375 - 1 / 3), rel=1e-4)


def test_errors_of_head_dim_128_and_base_10000() -> None:
    """float32 products are off as measured before, to two digits; bfloat16 loses the phase; fixed point keeps a microradian."""
    table = inverse_frequencies(128, 1e4)
    assert phase_errors("float32", table, [4096, 32768]) == [pytest.approx(2.4e-4, rel=0.05), pytest.approx(1.9e-3, rel=0.05)]
    assert all(phase_errors(arithmetic, table, [4096])[0] > 3 for arithmetic in ("bfloat16_frequencies", "bfloat16"))
    errors = phase_errors("fixed_point", table, [1000, 40_000])
    assert errors == phase_errors("fixed_point", table, [1000]) + phase_errors("fixed_point", table, [40_000])
    assert 0 < errors[0] <= errors[1] < 1e-6


def value(bounds: dict[str, Point], arm: str, quantity: str, **dims: str | int) -> float:
    return float(bounds[arm][reading(quantity, **dims)])


def test_arms_tell_head_dim_length_and_convention_apart() -> None:
    of_head = ("64", "512", "4k", "growth")
    names = [f"d{head_dim}-{of}" for head_dim in (32, 128) for of in of_head]
    assert [job.name for job in jobs(BOUNDS)] == [*names, "men-table-4"]
    other = jobs(BaseBound(head_dims=(64,), lengths=(1024,), inclusive=True, every=8))
    assert [(job.name, job.label) for job in other] == [("d64-1k-inclusive-every8", "d = 64, 1,024 tokens, m = N too, m by 8")]


def test_bounds_are_those_of_an_independent_search_on_a_grid(bounds: dict[str, Point]) -> None:
    smallest = [value(bounds, f"d{d}-512", quantity) for d in (32, 128) for quantity in base_bound.BOUNDS]
    assert smallest == pytest.approx([1.25e4, 1.88e4, 2066, 2934], rel=5e-3)
    assert value(bounds, "d128-4k", "smallest_base") == pytest.approx(26952.34, rel=1e-6)


def test_a_length_goes_on_from_the_recorded_point_of_the_one_before_it(bounds: dict[str, Point]) -> None:
    """To the resolution of the search, the bases are those without the shorter lengths."""
    alone = points_of(jobs(BaseBound(head_dims=(32,), lengths=(4096,))))["d32-4k"]
    for key, array in alone.items():
        np.testing.assert_allclose(array, bounds["d32-4k"][key], rtol=1e-8)
    (job,) = [job for job in jobs(BOUNDS) if job.name == "d32-4k"]
    told: list[int] = []
    job.compute({"d32-512": bounds["d32-512"]}, lambda done, steps: told.append(done))  # noqa: ARG005
    assert told[0] > 512
    assert told[-1] == 4096


def test_recorded_bases_are_those_of_the_search(bounds: dict[str, Point]) -> None:
    (job,) = [job for job in jobs(BOUNDS) if job.name == "d32-512"]
    bases = feasible_bases(bounds["d32-512"], job.settings)  # pyright: ignore[reportArgumentType]
    expected = restricted(start(32, 512, 1), 512)
    assert (bases.head_dim, bases.every, bases.length) == (32, 1, 512)
    np.testing.assert_allclose(bases.intervals, expected.intervals, rtol=1e-12)


def test_published_bases_are_tested_at_their_length(bounds: dict[str, Point]) -> None:
    men = {quantity: value(bounds, "d128-4k", quantity, published="men2024") for quantity in ("violations", "first_violation")}
    assert men == {"violations": 2, "first_violation": 4079}
    assert value(bounds, "d128-4k", "printed_base", published="men2024") == MEN.bases[4096]
    curve = bounds["d128-4k"][reading("similarity_sum", published="men2024")]
    assert np.flatnonzero(curve < 0)[0] == 4079
    assert curve[0] == HEAD_DIM / 2
    assert value(bounds, "d128-4k", "smallest_similarity", published="men2024") == pytest.approx(curve.min(), abs=1e-5)


def test_growth_is_fitted_to_every_length_and_to_what_is_printed(bounds: dict[str, Point]) -> None:
    bases = [value(bounds, f"d128-{name}", "smallest_base") for name in ("64", "512", "4k")]
    slope = np.polyfit(np.log([64, 512, 4096]), np.log(bases), 1)[0]
    exponents = [value(bounds, "d128-growth", f"growth_exponent{end}", of="smallest_base") for end in ("_low", "", "_high")]
    assert exponents == sorted(exponents)
    assert exponents[1] == pytest.approx(slope)
    printed = value(bounds, "d128-growth", "growth_exponent", of="printed_base", published="men2024")
    assert printed == pytest.approx(1.628, abs=5e-4)
    assert not any(key.dims == (("of", "printed_base"),) for key in bounds["d32-growth"])
    assert "d32-growth" not in [job.name for job in jobs(BaseBound(head_dims=(32,), lengths=(64, 128)))]


def test_men_table_4_is_counted_again(bounds: dict[str, Point]) -> None:
    counts = {key.dims: float(array) for key, array in bounds["men-table-4"].items() if key.quantity == "violations"}
    printed = {key.dims: float(array) for key, array in bounds["men-table-4"].items() if key.quantity == "printed_violations"}
    assert counts == printed
    assert sorted(counts.values()) == [0, 0, 97, 2554]
