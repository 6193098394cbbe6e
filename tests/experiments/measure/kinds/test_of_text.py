"""Tables of [measure] for models of text, published ones too, each against the same computed another way."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.measure import (
    AblationMeasure,
    ContextMeasure,
    FrequencyMeasure,
    InputsMeasure,
    InterventionsMeasure,
    LanguagesMeasure,
    PromptsMeasure,
    SinkRate,
    StreamingMeasure,
    VocabularyMeasure,
)
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import DynamicNtk, NtkAware, Scaling
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_tables import tables
from leadline.experiments.data.source import source_of_corpus
from leadline.experiments.data.text.held_out import GROUPS, HeldOut, recomputed_windows
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.exact.texts import costs, texts_of
from leadline.experiments.measure.kinds.ablation import ablation
from leadline.experiments.measure.kinds.context import context
from leadline.experiments.measure.kinds.documents import documents
from leadline.experiments.measure.kinds.frequency import frequency, id_bins
from leadline.experiments.measure.kinds.inputs import input_rows, inputs
from leadline.experiments.measure.kinds.interventions import interventions
from leadline.experiments.measure.kinds.languages import languages
from leadline.experiments.measure.kinds.perplexity import perplexity, perplexity_at
from leadline.experiments.measure.kinds.prompts import answer_hits, prompts_of
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.measure.kinds.streaming import StreamPolicy, stream_losses, streaming
from leadline.experiments.measure.kinds.text_curves import TextCurve
from leadline.experiments.measure.kinds.vocabulary import token_sizes, vocabulary
from leadline.experiments.measure.perplexity import position_edges
from leadline.experiments.measure.trained import attention_maps, case_losses, loss_cases, loss_gains
from leadline.experiments.records.left_out import without
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import apply_decoder
from leadline.model.encoder_decoder import init_model
from leadline.model.mesh import make_mesh
from tests.experiments.data.corpora import write_corpus
from tests.experiments.measure.kinds.toys import LENGTH, MEASURES, NOPE, ROPE, arm, models_of, points_of, source_of

pytestmark = pytest.mark.usefixtures("in_use", "mesh")


@pytest.fixture(scope="module")
def rope(folder: Path) -> Models:
    return models_of([arm("rope", "text")], source_of("text", folder), (1,))


def attention_of(models: Models, rows: np.ndarray) -> np.ndarray:
    """The attention [R, L, N, T, T] of the first model on each row of ids."""
    row = tables(models.arms[0].model, LENGTH, rows.shape[1])
    run = jax.jit(lambda ids: attention_maps(params, row, ids[None], models.model)[reading("attention_map")])
    params = jax.tree.map(jnp.asarray, models.params[0])
    return np.stack([run(jnp.asarray(ids)) for ids in rows])


def rows_of(models: Models) -> dict[str, np.ndarray]:
    """Six rows of twelve inputs of each kind."""
    text = replace(models.source.text, first=np.empty(0, np.int32))
    return input_rows(models.source, text.held_out(12, 6).windows)


@pytest.mark.parametrize(("name", "bos"), [("natural", "absent"), ("random", "fixed")])
def test_sinks_of_an_input_are_those_of_its_attention(rope: Models, name: str, bos: str) -> None:
    (point,) = inputs(rope, InputsMeasure(sequences=6))
    rows = rows_of(rope)[name][:, :-1]
    if bos == "fixed":
        rows = np.concatenate([np.full((6, 1), rope.source.tokenizer.specials.bos), rows[:, :-1]], axis=1)
    first = attention_of(rope, rows)[..., 0].mean(axis=-1)
    np.testing.assert_allclose(point[reading("first_token_mass", input=name, bos=bos)], first.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(point[reading("sink_rate", input=name, bos=bos)], (first > 0.3).mean(axis=0), rtol=1e-6)


def test_a_repeated_token_without_positions_is_attended_to_evenly(folder: Path) -> None:
    """Gu et al. 2025, Proposition 1: A_ij = 1 / i, so that the first of T keys gets (1 + 1/2 + … + 1/T) / T."""
    models = models_of([arm("nope", "text", NOPE)], source_of("text", folder), (1,))
    (point,) = inputs(models, InputsMeasure(sequences=4))
    even = np.mean(1 / np.arange(1, 13))
    np.testing.assert_allclose(point[reading("first_token_mass", input="repeated", bos="absent")], even, rtol=1e-5)


def test_rows_are_without_specials_and_as_many_of_each_kind(rope: Models) -> None:
    rows = rows_of(rope)
    assert {name: part.shape for name, part in rows.items()} == dict.fromkeys(("natural", "random", "repeated"), (6, 13))
    assert set(rows["random"].flat).isdisjoint(rope.source.tokenizer.specials.ids())
    assert len(np.unique(rows["random"])) > 40
    assert np.ptp(rows["repeated"], axis=1).max() == 0
    assert len(np.unique(rows["repeated"])) > 1
    assert not (rows["natural"][:, 0] == rope.source.tokenizer.specials.bos).any()


def test_statistics_of_long_windows_are_those_of_dense_attention(rope: Models) -> None:
    (point,) = context(rope, ContextMeasure(lengths=(24,), windows=2))
    windows, edges = rope.source.text.held_out(24, 2).windows[:, :-1], position_edges(24)
    attention = attention_of(rope, windows)
    seen = attention.sum(axis=-2) / np.arange(24, 0, -1)
    by_bin = [part.mean(axis=-1) for part in np.split(seen.mean(axis=(0, 2)), edges[1:-1], axis=-1)]
    np.testing.assert_allclose(point[reading("received_by_position", length=24)], np.stack(by_bin, -1), rtol=1e-4)
    np.testing.assert_allclose(point[reading("first_token_mass", length=24)], attention[..., 0].mean(axis=(0, 3)), rtol=1e-4)
    np.testing.assert_array_equal(point[reading("position_edges", length=24)], edges)
    row, params = tables(ROPE, LENGTH, 24), jax.tree.map(jnp.asarray, rope.params[0])
    run = jax.jit(lambda ids: apply_decoder(params, ids, row, rope.model, measure=lambda trace: trace.residual)[1])
    size = np.abs(np.stack([np.asarray(run(jnp.asarray(ids[None])))[:, 0] for ids in windows])).reshape(2, 2, -1)
    order = np.argsort(-size, axis=-1)[..., :3]
    np.testing.assert_array_equal(point[reading("massive_channels", length=24)], order % 16)
    np.testing.assert_array_equal(point[reading("massive_positions", length=24)], order // 16)
    ratios = np.take_along_axis(size, order, -1) / np.median(size, axis=-1, keepdims=True)
    np.testing.assert_allclose(point[reading("massive_activations", length=24)], ratios.mean(axis=0), rtol=1e-4)


def test_windows_are_as_long_as_those_of_training_where_no_length_is_given(rope: Models) -> None:
    (point,) = context(rope, ContextMeasure(windows=1))
    assert point[reading("windows", length=LENGTH, of="context")] == 1
    assert {dict(key.dims)["length"] for key in point} == {LENGTH}


@pytest.mark.parametrize("heads", [True, False])
def test_cases_one_by_one_change_the_loss_as_all_together(rope: Models, heads: bool) -> None:
    heard: list[tuple[int, int]] = []
    models = Models(rope.arms, rope.params, rope.source, rope.model, [], lambda done, total: heard.append((done, total)))
    (point,) = interventions(models, InterventionsMeasure(length=20, windows=4, hidden=(3,), heads=heads))
    batches = jnp.asarray(rope.source.text.held_out(20, 4).windows[None])
    losses = partial(TextCurve().losses, shared=None)
    params = jax.tree.map(jnp.asarray, rope.params[0])
    of_case = partial(case_losses, params, tables(ROPE, LENGTH, 20), batches, rope.model, losses, (3,))
    of_cases = jax.jit(lambda cases: jax.lax.map(of_case, cases))(loss_cases(rope.model, (3,)))
    together = loss_gains(jax.device_get(of_cases), rope.model, (3,))
    expected = {key for key in together if heads or key.quantity != "head_removed"}
    assert {key.at(length=20) for key in expected} == {key for key in point if key.quantity in ("loss_change", "head_removed")}
    for key in expected:
        np.testing.assert_allclose(point[key.at(length=20)], together[key], atol=1e-5, err_msg=str(key))
    assert heard == [(done, 5 + 4 * heads) for done in range(6 + 4 * heads)] + [(0, 1), (1, 1)]
    assert point[reading("early_divergence", length=20)][-1] == 0


@pytest.fixture(scope="module")
def answered(rope: Models) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Prompts with what greedy decoding makes of them, and what they ask for."""
    tokens = prompts_of(rope.source, PromptsMeasure(lengths=(160,), depths=2, rows=2), 160).tokens
    params, row = jax.tree.map(jnp.asarray, rope.params[0]), tables(ROPE, LENGTH, 160)

    @cache
    def run(length: int):  # noqa: ARG001
        return jax.jit(lambda ids: jnp.argmax(apply_decoder(params, ids, row, rope.model)[0][:, -1], axis=-1))

    decoded = tokens[:, :160]
    with jax.set_mesh(make_mesh()):
        for length in range(160, tokens.shape[1]):
            decoded = np.concatenate([decoded, np.asarray(run(length)(jnp.asarray(decoded)))[:, None]], axis=1)
    yield decoded, tokens


def test_an_answer_is_hit_exactly_if_greedy_decoding_gives_it(rope: Models, answered: tuple[np.ndarray, np.ndarray]) -> None:
    decoded, prompts = answered
    params, row = jax.tree.map(jnp.asarray, rope.params[0]), tables(ROPE, LENGTH, 160)
    spoiled = decoded.copy()
    spoiled[:, 162] = (spoiled[:, 162] + 1) % 256  # a wrong token, after which hits say nothing of decoding
    run = jax.jit(lambda batches: answer_hits(params, row, batches, 160, rope.model))
    hit = np.asarray(run(jnp.asarray(np.stack([decoded, spoiled, prompts]))))
    assert hit[: len(decoded)].all()
    rows = np.concatenate([decoded, spoiled, prompts])
    same = (rows[:, 160:] == np.tile(decoded[:, 160:], (3, 1))).all(axis=1)
    np.testing.assert_array_equal(hit.all(axis=1), same)
    assert 0 < same.sum() < len(same)


def test_prompts_too_short_for_their_question_are_said_before_training(rope: Models) -> None:
    measure = MEASURES["text"].model_copy(update={"prompts": PromptsMeasure(lengths=(90,))})
    with pytest.raises(UserError, match="a prompt of 89 tokens has no room"):
        check_data(rope.source, arm("rope", "text", measure=measure))


def test_languages_are_those_of_the_tokenizer(rope: Models) -> None:
    (point,) = languages(rope, LanguagesMeasure())
    by_language = costs(rope.source.tokenizer, texts_of("embedded", "eng"))
    for language, text in by_language.items():
        assert point[reading("tokens", language=language)] == text.tokens
        assert point[reading("effective_context", language=language)] == pytest.approx(
            LENGTH * by_language["eng"].tokens / text.tokens
        )


@pytest.mark.parametrize("group", [0, pytest.param(GROUPS - 1, marks=pytest.mark.slow)])
def test_the_last_point_is_measured_without_each_group_of_documents(tmp_path: Path, group: int) -> None:
    source = source_of("text", write_corpus(tmp_path / "many", documents=80))
    of_many = MEASURES["text"].model_copy(update={"windows": 500, "vocabulary": None})
    models = models_of([arm("rope", "text", measure=of_many)], source, (1,))
    (point,) = documents(models)
    kept = {length: _without(source.text.held_out(length, 500), group) for length in (LENGTH, of_many.sink.length)}
    (losses,) = models.window_losses("kept", kept[LENGTH])
    assert point[without(reading("loss"))][group] == pytest.approx(losses.mean(), rel=1e-5)
    sizes = token_sizes(source.tokenizer, source.vocabulary)[kept[LENGTH][:, 1:]]
    bits = losses.sum(dtype=np.float64) / sizes.sum() / math.log(2)
    assert point[without(reading("bits_per_byte"))][group] == pytest.approx(bits, rel=1e-5)
    rows = kept[of_many.sink.length][:, :-1]
    attention = attention_of(models, rows)
    first = attention[..., 0].mean(axis=-1)
    np.testing.assert_allclose(point[without(reading("first_token_mass"))][group], first.mean(axis=0), rtol=1e-4)
    begins = np.pad(rows[:, :-1] == source.tokenizer.specials.eos, [(0, 0), (1, 0)], constant_values=True)
    starts = np.sum(attention * begins[:, None, None, None], axis=-1).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(point[without(reading("document_start_mass"))][group].mean(axis=-1), starts, rtol=1e-4)


def test_short_windows_have_no_loss_without_a_group_where_long_ones_have_too_few_documents(
    rope: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldOut, "enough_documents", property(lambda text: text.counted.shape[1] < LENGTH))
    (point,) = documents(rope)
    assert {key.quantity for key in point} == {"sink_rate", "first_token_mass", "sink_logit_mass", "document_start_mass"}


@pytest.mark.parametrize(("name", "bos"), [("natural", "absent"), ("repeated", "fixed")])
def test_sinks_of_inputs_are_measured_without_each_group_of_documents(tmp_path: Path, name: str, bos: str) -> None:
    source = source_of("text", write_corpus(tmp_path / "many", documents=80))
    models = models_of([arm("rope", "text")], source, (1,))
    (point,) = inputs(models, InputsMeasure(sequences=400))
    text = replace(source.text, first=np.empty(0, np.int32)).held_out(12, 400)
    rows = input_rows(source, text.windows)[name][text.window_groups != 3, :-1]
    if bos == "fixed":
        rows = np.concatenate([np.full((len(rows), 1), source.tokenizer.specials.bos), rows[:, :-1]], axis=1)
    first = attention_of(models, rows)[..., 0].mean(axis=-1)
    key = without(reading("first_token_mass", input=name, bos=bos))
    np.testing.assert_allclose(point[key][3], first.mean(axis=0), rtol=1e-4)


def _without(text: HeldOut, group: int) -> np.ndarray:
    assert text.enough_documents
    return text.windows[text.groups[:, 0] != group]


def test_a_length_and_an_extension_by_themselves_are_as_with_all_others(rope: Models) -> None:
    settings = MEASURES["text"].perplexity
    assert settings is not None
    settings = settings.model_copy(update={"lengths": (24, 32)})
    (whole,) = perplexity(rope, settings)
    (alone,) = perplexity_at(rope, settings, 24, [("pi",)])
    assert {dict(key.dims).get("extension") for key in alone if key.quantity == "perplexity"} == {"pi"}
    assert "sink_rate" not in {key.quantity for key in alone}
    for key, value in alone.items():
        np.testing.assert_allclose(whole[key], value, rtol=1e-6, err_msg=str(key))


def test_a_corpus_that_nothing_is_trained_on_is_streamed_and_has_no_rare_tokens(rope: Models, folder: Path) -> None:
    source = source_of_corpus(rope.source.data, (str(folder),), rope.source.tokenizer)
    stream = source.stream(200)
    assert stream.windows.shape == (1, 201)
    assert stream.document_count > 1
    (point,) = vocabulary(Models(rope.arms, rope.params, source, rope.model, []), VocabularyMeasure(bytes=200))
    assert point[reading("bits_per_byte")] > 5
    assert reading("rare_ids") not in point


def test_bits_per_byte_are_measured_without_each_group_of_documents(tmp_path: Path) -> None:
    source = source_of("text", write_corpus(tmp_path / "many", documents=80))
    models = models_of([arm("rope", "text")], source, (1,))
    (point,) = vocabulary(models, VocabularyMeasure(bytes=10**6))
    text = source.held_out_bytes(10**6)
    (losses,) = models.window_losses("losses", text.windows)
    sizes = token_sizes(source.tokenizer, source.vocabulary)[text.windows[:, 1:]]
    kept = text.counted & (text.groups != 3)
    bits = losses[kept].sum(dtype=np.float64) / sizes[kept].sum() / math.log(2)
    assert point[without(reading("bits_per_byte"))][3] == pytest.approx(bits)


@pytest.mark.parametrize("span", ["stream", "sampled"])
def test_a_stream_is_measured_without_each_group_of_documents(tmp_path: Path, span: str) -> None:
    """In every bin of places the means are of the targets that are left, and bins count by as many as are left of them."""
    source = source_of("text", write_corpus(tmp_path / "many", documents=600))
    settings = StreamingMeasure(
        tokens=4096, cache=20, initial_tokens=(2,), text_positions=(), full_attention=24, recomputed=64, stride=4
    )
    models = models_of([arm("rope", "text")], source, (1,))
    (point,) = streaming(models, settings)
    stream, edges = source.stream(4096), position_edges(4096)
    assert stream.enough_documents
    halves = stream.windows[0, :-1], stream.windows[0, 1:]
    chunks = tuple(jnp.asarray(np.pad(half, (0, -4096 % 20)).reshape(-1, 20)) for half in halves)
    policy = StreamPolicy(jnp.int32(2), jnp.int32(18), jnp.bool_(True))
    row, params = tables(ROPE, LENGTH, 20), jax.tree.map(jnp.asarray, models.params[0])
    run = jax.jit(lambda chunks: stream_losses(params, row, policy, chunks, models.model, 2))
    losses = np.asarray(run(chunks), np.float64).ravel()[:4096]
    again = recomputed_windows(stream.windows[0], edges, 20, 4, 64, keep_first=True)
    measured = np.isin(np.arange(4096), again.places[again.counted]) if span == "sampled" else np.ones(4096, bool)
    left = stream.groups[0] != 3
    means, sizes = [], []
    for low, high in itertools.pairwise(edges):
        kept = np.flatnonzero(left[low:high]) + low
        if measured[kept].any():
            means.append(losses[kept][measured[kept]].mean())
            sizes.append(len(kept))
    key = without(reading("perplexity", policy="streaming", initial_tokens=2, positions="cache", span=span))
    assert point[key][3] == pytest.approx(math.exp(np.average(means, weights=sizes)), rel=1e-5)
    assert not any(dict(entry.dims).get("span") == "start" for entry in point if "without" in dict(entry.dims))


def test_bins_of_ids_have_the_rows_and_the_losses_of_their_ids(rope: Models) -> None:
    rows = rope.params[0].embedding
    (point,) = frequency(rope, FrequencyMeasure(bins=4, windows=12))
    counts, bins = id_bins(rope.source, 4)
    assert counts.sum() == sum(len(part.train) for part in rope.source.text.parts)
    assert all(counts[bins == number].max() <= counts[bins == number + 1].min() for number in range(3))
    windows = rope.source.text.held_out(LENGTH, 12).windows
    (losses,) = rope.window_losses("again", windows)
    targets = bins[windows[:, 1:]]
    for number in range(4):
        dims, chosen = {"frequency_bin": number + 1}, targets == number
        assert point[reading("targets", **dims)] == chosen.sum()
        assert point[reading("occurrences", **dims)] == pytest.approx(counts[bins == number].mean())
        norms = np.linalg.norm(np.asarray(rows, np.float64)[bins == number], axis=1)
        assert point[reading("row_norm", **dims)] == pytest.approx(norms.mean(), rel=1e-5)
        assert (reading("loss", **dims) in point) == chosen.any()
        if chosen.any():
            assert point[reading("loss", **dims)] == pytest.approx(losses[chosen].mean(), rel=1e-5)
    assert not any(key.quantity == "row_change" for key in point)


def test_rows_change_from_the_weights_that_the_seed_draws(rope: Models) -> None:
    first = jax.device_get(init_model(jax.random.key(7), rope.model))
    moved = replace(first, embedding=first.embedding + np.float32(0.5))
    models = replace(rope, params=[moved], seeds=[7])
    (point,) = frequency(models, FrequencyMeasure(bins=2, windows=4))
    for number in (1, 2):  # every channel by a half
        assert point[reading("row_change", frequency_bin=number)] == pytest.approx(0.5 * ROPE.width**0.5, rel=1e-5)


def test_frequencies_need_the_text_that_was_trained_on(rope: Models, folder: Path) -> None:
    source = source_of_corpus(rope.source.data, (str(folder),), rope.source.tokenizer)
    with pytest.raises(UserError, match="needs the training text, which is not at hand"):
        id_bins(source, 8)
    with pytest.raises(UserError, match="bins = 300 is more than the 259 ids"):
        id_bins(rope.source, 300)


def scaled(*scalings: Scaling) -> list[Arm]:
    """Arms whose sinks are measured on texts of 24 tokens, half as many again as in training."""
    ropes = [ROPE.model_copy(update={"position": Rope(base=100.0, scaling=scaling)}) for scaling in scalings]
    measure = MEASURES["text"].model_copy(update={"sink": SinkRate(length=24)})
    return [arm("scaled", "text", rope, measure=measure) for rope in ropes]


def test_a_stream_and_its_windows_have_the_table_of_as_many_tokens_as_they_have_positions(folder: Path) -> None:
    """Dynamic NTK over a text of one length is NTK-aware scaling by that length over the training length."""
    lengths = {"cache": 20, "start": 24, "text": 120}
    arms = scaled(DynamicNtk(), *(NtkAware(factor=length / LENGTH) for length in lengths.values()))
    settings = StreamingMeasure(
        tokens=120, cache=20, initial_tokens=(2,), text_positions=(2,), full_attention=24, recomputed=4, stride=4
    )
    dynamic, *fixed = streaming(models_of(arms, source_of("text", folder), (1,) * 4), settings)
    of_length = dict(zip(lengths, fixed, strict=True))
    of_stream = {"policy": "streaming", "initial_tokens": 2, "span": "stream"}
    readings = {
        reading("perplexity", policy="recomputed", span="sampled"): "cache",
        reading("perplexity", positions="cache", **of_stream): "cache",
        reading("perplexity", policy="full", span="start"): "start",
        reading("perplexity", positions="text", **of_stream): "text",
    }
    for key, length in readings.items():
        assert [name for name, point in of_length.items() if point[key] == dynamic[key]] == [length], key


def test_each_text_of_a_curve_has_the_table_of_its_length(folder: Path) -> None:
    arms = scaled(DynamicNtk(), NtkAware(factor=1.5), NtkAware(factor=1.0))
    (dynamic, fixed, plain), _ = points_of(arms, source_of("text", folder))
    sinks, loss = reading("first_token_mass"), reading("loss")
    np.testing.assert_array_equal(dynamic[sinks], fixed[sinks])
    assert not np.array_equal(dynamic[sinks], plain[sinks])
    assert dynamic[loss] == plain[loss] != fixed[loss]


@pytest.mark.slow
def test_each_text_of_an_ablation_has_the_table_of_its_length(folder: Path) -> None:
    arms = scaled(DynamicNtk(), NtkAware(factor=1.5), NtkAware(factor=1.0))
    models = models_of(arms, source_of("text", folder), (1,) * 3)
    dynamic, fixed, plain = ablation(models, AblationMeasure(hidden=(1,), map=8))
    of_domain, whole = reading("first_token_mass", domain="prose"), reading("first_token_mass", length=LENGTH)
    np.testing.assert_array_equal(dynamic[of_domain], fixed[of_domain])
    assert not np.array_equal(dynamic[of_domain], plain[of_domain])
    np.testing.assert_array_equal(dynamic[whole], plain[whole])
    assert not np.array_equal(dynamic[whole], fixed[whole])
