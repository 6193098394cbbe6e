"""Single kinds of measurement: what is extended and compiled together, what is kept of answers, and what does not suffice."""

import itertools
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.config.measure import Measure, PerplexityMeasure, RetrievalMeasure, SinkRate, VocabularyMeasure
from leadline.experiments.config.position import Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import Extension
from leadline.experiments.config.study import Start
from leadline.experiments.config.to_model import decoder_config, extended
from leadline.experiments.config.tokenizer import Words
from leadline.experiments.data.retrieval.source import RetrievalSource
from leadline.experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.kinds import recall
from leadline.experiments.measure.kinds.perplexity import by_structure
from leadline.experiments.measure.kinds.recall import distance_edges, predicted_reach
from leadline.experiments.measure.kinds.registry import check_data, final_points
from leadline.experiments.measure.kinds.retrieval import accuracies, by_bin, grid_edges
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.runtime.errors import UserError
from leadline.model.base_bound.sums import similarity_sums
from tests.experiments.measure.kinds.toys import LENGTH, MEASURES, ROPE, arm, models_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")
ALIBI = arm("alibi", "text", ROPE.model_copy(update={"position": Alibi()}))
DATA = RetrievalData(length=36, keys=40, values=10)
SETTINGS = RetrievalMeasure(lengths=(36,), depths=8, rows=2)


def test_models_whose_tables_are_values_share_a_structure() -> None:
    arms = [arm("any", "text", ROPE.model_copy(update={"position": Rope(base=base)})) for base in (100.0, 50.0)]
    models = Models([*arms, ALIBI], [], None, decoder_config(ROPE, 9, LENGTH), [])
    extensions = (None, "pi", "yarn", "dynamic_ntk_token")
    (same,) = by_structure(models, LENGTH, [extensions] * 3).values()
    assert [job[:2] for job in same] == [(0, None), (1, None), (2, None)]
    whole, by_token = by_structure(models, 32, [extensions] * 3).values()  # a table a token is a structure of its own
    assert [job[:2] for job in whole] == [(0, None), (0, "pi"), (0, "yarn"), (1, None), (1, "pi"), (1, "yarn"), (2, None)]
    assert [job[:2] for job in by_token] == [(0, "dynamic_ntk_token"), (1, "dynamic_ntk_token")]


def test_a_tuned_model_is_extended_from_its_first_length() -> None:
    plain = arm("plain", "text")
    tuned = arm("tuned", "text", data=plain.data.model_copy(update={"length": 32}))
    tuned = tuned.model_copy(update={"start": Start(arm="plain", length=LENGTH, steps=1)})
    models = Models([plain, tuned], [], None, decoder_config(ROPE, 9, LENGTH), [])
    (jobs,) = by_structure(models, 64, ((None, "pi"), (None, "pi"))).values()
    of_plain, of_tuned = (model for _, extension, model in jobs if extension is not None)
    assert of_plain == of_tuned == extended(ROPE, "pi", 4.0)  # 64 / 16 both


@pytest.mark.parametrize("first", ["few", "many"])
def test_a_model_has_its_own_extensions_whatever_those_of_its_group(folder: Path, first: str) -> None:
    own: dict[str, tuple[Extension, ...]] = {"few": ("pi",), "many": ("pi", "yarn")}
    names = sorted(own, key=lambda name: name != first)
    tables = [PerplexityMeasure(lengths=(32,), windows=4, last=8, extensions=own[name]) for name in names]
    measures = [Measure(windows=4, sink=SinkRate(length=8), perplexity=table) for table in tables]
    arms = [arm(name, "text", measure=measure) for name, measure in zip(names, measures, strict=True)]
    models = models_of(arms, source_of("text", folder), (1, 2))
    for name, point in zip(names, final_points(models), strict=True):
        extensions = {dict(key.dims).get("extension") for key in point if key.quantity == "perplexity"}
        assert extensions == {None, *own[name]}
    assert models.programs == ["perplexity at 32"]


@pytest.mark.parametrize(("table", "changes"), [("perplexity", {"lengths": (99_999,)}), ("streaming", {"tokens": 99_999})])
def test_too_little_held_out_text_is_said_before_training(folder: Path, table: str, changes: dict[str, object]) -> None:
    longer = dict(MEASURES["text"])[table].model_copy(update=changes)
    with pytest.raises(UserError, match="held-out text"):
        check_data(source_of("text", folder), arm("rope", "text", measure=Measure(**{table: longer})))


def test_words_have_unknown_ones_and_no_bits(folder: Path) -> None:
    source = source_of("text", folder, tokenizer=Words(vocabulary=20))
    words = arm("words", "text", data=source.data, measure=Measure(windows=4, vocabulary=VocabularyMeasure(bytes=100)))
    models = models_of([words], source, (1,))
    (point,) = final_points(models)
    assert math.isnan(point[reading("bits_per_byte")])
    assert point[reading("unknown_share", domain="prose")] > 0.1
    assert point[reading("bytes_per_token")] > 1


@pytest.mark.parametrize("task", TASKS)
def test_what_is_kept_follows_the_hits(task: Task) -> None:
    """A model that hits what lies in the first half of the context, or is of the smaller sizes, and nothing else."""
    sample = jax.device_get(RetrievalSource(DATA).questions(task, 36, SETTINGS.depths, SETTINGS.rows))
    of_answers = task in AT_A_DEPTH + OF_A_SIZE
    early = (np.arange(16) < 8)[:, None] if of_answers else sample.evidence / 36 < 0.5
    hit = np.broadcast_to(early, sample.weights.shape) & (sample.weights > 0)
    point = {}
    for key, value in accuracies(task, hit, sample, SETTINGS, 36).items():
        dims = dict(key.dims)
        assert (dims.pop("task"), dims.pop("length")) == (task, 36)
        assert value.ndim == len(QUANTITIES[key.quantity].axes)
        point[reading(key.quantity, **dims)] = value
    assert point[reading("answers")] == 16
    axis = "size" if task in OF_A_SIZE else "depth"
    assert point[reading(axis)].shape == (8,)
    if task in OF_A_SIZE:  # each is asked twice, and its answer ends with a token more, or two
        sizes = sample.weights.sum(axis=1) - (1 if task == "copy" else 2)
        np.testing.assert_array_equal(np.repeat(point[reading("size")], 2), sizes)
    if of_answers:
        assert point[reading("accuracy")] == 0.5
        np.testing.assert_array_equal(point[reading(f"accuracy_by_{axis}")], [1] * 4 + [0] * 4)
        np.testing.assert_array_equal(point[reading(f"answers_by_{axis}")], 2)
    else:
        shares = point[reading("token_accuracy_by_depth")]
        np.testing.assert_array_equal(shares[np.isfinite(shares)][:2], 1)
        assert not shares[4:][np.isfinite(shares[4:])].any()
        assert point[reading("tokens_by_depth")].sum() == (sample.weights > 0).sum()
    parts = [float(point[reading("accuracy", part=part)]) for part in ("first", "middle", "last") if task in AT_A_DEPTH]
    assert parts == ([1.0, 0.5, 0.0] if task in AT_A_DEPTH else [])
    assert (reading("token_accuracy_by_distance") in point) == (task != "addition")


@pytest.mark.parametrize(("place", "shares"), [(0.0, [1, 0, 0]), (0.5, [0, 1, 0]), (1.0, [0, 0, 1])])
def test_the_ends_are_an_eighth_of_all_depths_and_the_middle_is_the_quarter_around_the_half(
    place: float, shares: list[float]
) -> None:
    near = np.abs(np.repeat(np.linspace(0, 1, SETTINGS.depths), SETTINGS.rows) - place) <= 1 / 8
    rows = (len(near), 1)
    sample = Sample(jnp.zeros((len(near), 2), int), jnp.ones(rows), jnp.full(rows, -1))
    point = accuracies(AT_A_DEPTH[0], near[:, None], sample, SETTINGS, 36)
    parts = [{"part": part, "task": AT_A_DEPTH[0], "length": 1} for part in ("first", "middle", "last")]
    assert [point[reading("accuracy", **dims)] for dims in parts] == shares


def test_questions_that_do_not_fit_are_said_before_training() -> None:
    measure = Measure(retrieval=RetrievalMeasure(lengths=(36, 2000)))
    with pytest.raises(UserError, match="key_value needs 998 different keys, and there are 40"):
        check_data(RetrievalSource(DATA), arm("rope", "retrieval", measure=measure))


def test_each_point_of_a_grid_has_its_bin() -> None:
    for points in range(2, 60):
        _, counts = by_bin(np.ones(points, bool), np.linspace(0, 1, points), grid_edges(points))
        np.testing.assert_array_equal(counts, 1)


@pytest.mark.parametrize("base", [10.0, 1e4])
def test_predicted_reach_is_where_b_m_is_first_negative(base: float) -> None:
    rope = arm("rope", "mixed", ROPE.model_copy(update={"position": Rope(base=base)}))
    sums = similarity_sums(base ** -(np.arange(0, 8, 2) / 8), 1000)
    assert predicted_reach(rope) == np.flatnonzero(sums < 0)[0]


@pytest.mark.parametrize(
    ("rope", "rotated_exponents"),
    [(Rope(base=10.0, p=0.75), np.arange(3) / 4), (Rope(base=10.0, partial=0.75), np.arange(3) / 3)],
)
def test_pairs_that_do_not_rotate_add_one_to_b_m(rope: Rope, rotated_exponents: np.ndarray) -> None:
    arm_without = arm("rope", "mixed", ROPE.model_copy(update={"position": rope}))
    sums = 1 + np.cos(np.outer(np.arange(1000), 10.0**-rotated_exponents)).sum(axis=1)
    assert predicted_reach(arm_without) == np.flatnonzero(sums < 0)[0]


def test_a_model_that_recalls_up_to_the_predicted_reach_is_right_within_it_and_never_beyond() -> None:
    """A row for each distance, whose last target alone is an answer."""
    rope = arm("rope", "mixed", ROPE.model_copy(update={"position": Rope(base=10.0)}))
    distance = np.arange(1, 40)[:, None]
    evidence = np.where(np.arange(40) == 39, 39 - distance, -1)
    hit = np.broadcast_to(distance < predicted_reach(rope), evidence.shape)
    point = recall.accuracies(hit, Sample(jnp.zeros((39, 41), int), evidence=jnp.asarray(evidence)), rope)
    assert [point[reading("recall_accuracy", length=40, part=part)] for part in ("within", "beyond")] == [1, 0]


def test_bins_cover_every_distance_and_have_an_odd_one() -> None:
    for length in (4, 100, 2048):
        edges = distance_edges(length)
        assert edges[-1] >= length > edges[-2]
        assert all(any(distance % 2 for distance in range(a + 1, b + 1)) for a, b in itertools.pairwise([0, *edges]))
