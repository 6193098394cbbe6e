"""A tiny published model through the jobs of `[exact] kind = "published"`."""

from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.exact import PublishedStudy
from leadline.experiments.config.measure import Measure
from leadline.experiments.measure.exact.published import PublishedSettings, jobs
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from tests.experiments.measure.exact.jobs import computed
from tests.experiments.published.tiny_llama import CONTEXT, LAYERS, tiny_llama

MEASURE = {
    "inputs": {"sequences": 2},
    "perplexity": {"lengths": [16, 2 * CONTEXT], "windows": 2, "last": 4, "extensions": ["pi", "yarn"]},
    "sink": {"length": 16},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("published") / "tiny")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number in range(4):
        words = " ".join(f"word{(7 * number + 3 * place) % 101}" for place in range(200))
        (folder / f"{number}.txt").write_text(words, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def exact(model: Path, book: Path) -> PublishedStudy:
    return PublishedStudy.model_validate({"kind": "published", "model": str(model), "corpus": [str(book)], "measure": MEASURE})


def test_every_table_is_a_job_and_perplexity_one_a_length_and_extension(exact: PublishedStudy) -> None:
    of_perplexity = {f"perplexity-{length}{way}" for length in (16, 2 * CONTEXT) for way in ("", "-pi", "-yarn")}
    of_perplexity -= {"perplexity-16-pi", "perplexity-16-yarn"}  # within the context there is nothing to extend
    assert {job.name for job in jobs(exact)} == {"inputs", "base_bound", *of_perplexity}


def test_jobs_measure_the_model_and_describe_it(exact: PublishedStudy) -> None:
    results = computed(jobs(exact))
    assert results["inputs"].point[reading("sink_rate", input="random", bos="absent")].shape[0] == LAYERS
    as_it_is = results[f"perplexity-{2 * CONTEXT}"].point[reading("perplexity", length=2 * CONTEXT)]
    extended = results[f"perplexity-{2 * CONTEXT}-pi"].point[reading("perplexity", length=2 * CONTEXT, extension="pi")]
    assert np.isfinite(as_it_is) and np.isfinite(extended) and as_it_is != extended
    assert results["base_bound"].point[reading("printed_base")] == 1e4
    assert {result.parameters for result in results.values()} == {results["inputs"].parameters} != {0}
    assert results["inputs"].data["held_out_documents"] == 4


def test_the_settings_of_a_job_are_its_own_table_alone(exact: PublishedStudy) -> None:
    (inputs,) = (job.settings for job in jobs(exact) if job.name == "inputs")
    assert isinstance(inputs, PublishedSettings)
    assert inputs.table == "inputs" and inputs.model == "tiny" and inputs.data.length == CONTEXT
    assert inputs.measure.perplexity is None and inputs.measure.sink.length == 16


def test_the_base_bound_can_be_left_out(exact: PublishedStudy) -> None:
    assert "base_bound" not in {job.name for job in jobs(exact.model_copy(update={"base_bound": False}))}


def test_what_cannot_be_measured_is_said_before_anything_is(exact: PublishedStudy) -> None:
    for table, message in (
        ({"perplexity": {"lengths": [16]}}, "tiny: measure.perplexity.last = 64 is more than the 16 tokens of a window"),
        ({"streaming": {"tokens": 10**6, "cache": 32, "full_attention": 64}}, "a stream of 1000000 tokens takes more"),
    ):
        with pytest.raises(UserError, match=message):
            jobs(exact.model_copy(update={"measure": Measure.model_validate(table)}))
