"""The study of streams at toy size: against a stream read in one piece; its table, its figure, its mistakes."""

import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from rich.console import Console

from experiments.build import decoder_config
from experiments.config.data import TextData
from experiments.config.measure import SinkRate, StreamingMeasure
from experiments.config.model import ModelConfig
from experiments.config.position import Alibi, Rope
from experiments.config.study import Arm, StreamingStudy
from experiments.config.train import TrainConfig
from experiments.data.source import TextSource, open_source
from experiments.errors import UserError
from experiments.load import load_studies
from experiments.position_tables import tables
from experiments.progress import Progress
from experiments.publish.table import MISSING, Statistic, markdown
from experiments.record import StoredRecord, write_record
from experiments.studies.run import planned, run
from experiments.studies.streaming import STUDY, label, table, ways
from experiments.studies.streaming_drawings import streaming_drawings
from experiments.studies.streaming_measure import StreamingMeasurer
from model.decoder import Decoder, apply_decoder, extend, init_decoder
from model.streaming import empty_stream
from tests.experiments.synthetic_records import measured, record
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("in_use")

CACHE, TOKENS, DENSE, STRIDE = 8, 60, 24, 4
ROPE = ModelConfig(layers=1, width=16, heads=2, hidden=16, position=Rope(base=100.0))
MEASURE = StreamingMeasure(
    tokens=TOKENS,
    kept=(0, 2),
    in_text=(2,),
    dense=DENSE,
    recomputed=STRIDE,
    stride=STRIDE,
    sequences=4,
    sink=SinkRate(length=8),
)
STUDY_FILE = """
study = "streaming"
seeds = [0]
[model]
layers = 1
width = 8
heads = 2
hidden = 8
position = { kind = "rope", base = 100.0 }
[data]
kind = "text"
length = 8
[train]
steps = 2
batch = 2
learning_rate = 1e-2
[measure]
tokens = 64
dense = 16
kept = [0, 4]
in_text = [4]
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> TextSource:
    folder = tmp_path_factory.mktemp("corpus")
    for i in range(20):
        (folder / f"{i}.txt").write_text(f"Document {i} says that {i} times {i} is {i * i}, and that is all it says.")
    opened = open_source(TextData(corpus=(str(folder),), length=CACHE, held_out=0.4, bos="fixed"), folder / "cache")
    assert isinstance(opened, TextSource)
    return opened


def _arm(name: str, model: ModelConfig) -> Arm:
    data = TextData(corpus=("unread",), length=CACHE, bos="fixed")
    return Arm(name=name, model=model, data=data, train=TrainConfig(steps=1, batch=2, learning_rate=1e-3), measure=MEASURE)


def _params(seed: int) -> Decoder:
    return drawn(lambda: init_decoder(jax.random.key(0), decoder_config(ROPE, 259, CACHE)), seed)


def _losses(scores: jax.Array, targets: np.ndarray) -> np.ndarray:
    """numpy's log-softmax in float64."""
    rows = np.asarray(scores, np.float64)[0]
    return np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(len(targets)), targets]


def test_what_is_measured_is_what_single_passes_give(mesh: Mesh, source: TextSource) -> None:  # noqa: ARG001
    models = [ROPE, ROPE.model_copy(update={"position": Alibi()})]
    arms, params = [_arm(f"arm{i}", model) for i, model in enumerate(models)], [_params(1), _params(2)]
    programs: list[str] = []
    cfg = decoder_config(ROPE, 259, CACHE)
    points = StreamingMeasurer().final(arms, params, source, cfg, programs)
    assert programs == ["recomputed", "dense", "stream"]
    text = source.held_out(TOKENS, TOKENS)[0]
    for model, own, found in zip(models, params, points, strict=True):
        row, edges = tables(model, CACHE), found["position_edges"]
        dense = _losses(apply_decoder(own, jnp.asarray(text[None, :DENSE]), row, cfg)[0], text[1 : DENSE + 1])
        assert found["perplexity_start.dense"] == pytest.approx(math.exp(dense.mean()), rel=1e-4)
        for way, kept, reindexed in (("kept0", 0, True), ("kept2", 2, True), ("kept2_in_text", 2, False)):
            policy = {"kept": kept, "window": CACHE - kept, "reindexed": reindexed}
            stream = empty_stream(1, 1, 2, 8, **policy, room=2, at_once=TOKENS, widest=CACHE)
            losses = _losses(extend(own, stream, jnp.asarray(text[None, :-1]), row, cfg)[0], text[1:])
            assert found[f"perplexity.{way}"] == pytest.approx(math.exp(losses.mean()), rel=1e-4)
            assert found[f"perplexity_start.{way}"] == pytest.approx(math.exp(losses[:DENSE].mean()), rel=1e-4)
            by_place = [part.mean() for part in np.split(losses, edges[1:-1])]
            np.testing.assert_allclose(found[f"loss_by_position.{way}"], by_place, rtol=1e-4)
        end = 52  # of the one window in the last bin, which holds the segments 48 …, 52 … and 56 …
        last = text[None, end - CACHE : end].copy()
        last[0, 0] = text[0]  # BOS in front, as in training
        again = _losses(apply_decoder(own, jnp.asarray(last), row, cfg)[0], text[end - CACHE + 1 : end + 1])
        assert found["loss_by_position.recomputed"][-1] == pytest.approx(again[-STRIDE:].mean(), rel=1e-4)
    assert points[1]["perplexity.kept2"] != points[1]["perplexity.kept2_in_text"]


def test_the_whole_path_runs(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("All that it says it says once, and then again, and again; " * 20)
    config = tmp_path / "streaming.toml"
    config.write_text(STUDY_FILE)
    words = [
        f"data.corpus=['{corpus}']",
        "data.held_out=0.3",
        "measure.sequences=2",
        "measure.sink.length=8",
        "measure.stride=2",
    ]
    ran = run(planned(config, words), tmp_path / "results", Progress(Console(quiet=True)))
    assert {path.stem for path in ran.published.figures} == {
        "perplexity_over_stream",
        "stream_against_recomputed",
        "streaming_by_head",
    }
    assert ran.programs == ("initialise", "train", "measure", "recomputed", "dense", "stream")
    with pytest.raises(UserError, match="a window of 9999 takes 10000 tokens"):
        run(planned(config, [*words, "measure.tokens=9999"]), tmp_path / "other", Progress(Console(quiet=True)))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.position={kind='learned'}", 'model.position.kind = "learned" cannot be streamed'),
        ("model.position={kind='rope', base=9.0, scaling={kind='dynamic_ntk', factor=2.0, per='query'}}", "one table for all"),
        ("data.bos=random", 'data.bos = "random": a stream has one first token'),
        ("measure.kept=[8]", "8 kept tokens fill a cache of 8"),
        ("measure.in_text=[9]", "9 kept tokens fill a cache of 8"),
        ("measure.stride=8", "measure.stride = 8 is not below the 8 tokens"),
        ("measure.dense=65", "measure.dense = 65"),
        ("measure.dense=8", "measure.dense = 8"),
    ],
)
def test_mistakes_are_said_before_training(tmp_path: Path, word: str, message: str) -> None:
    config = tmp_path / "streaming.toml"
    config.write_text(STUDY_FILE)
    with pytest.raises(UserError, match=re.escape(message)):
        load_studies(config, ["measure.stride=2", word])


def test_the_committed_configurations_stream_a_million_tokens() -> None:
    paths = sorted(Path(__file__).parents[3].joinpath("configs").rglob("*streaming.toml"))
    assert len(paths) == 2
    for path in paths:
        (study,) = load_studies(path)
        assert isinstance(study, StreamingStudy)
        assert study.measure.tokens >= 10**6
        assert study.measure.kept == (0, 1, 2, 4, 8)


def _stored(folder: Path) -> list[StoredRecord]:
    """Two arms of two seeds with invented numbers."""
    edges = np.array([0, 16, 64, 256, 1024])
    stored = []
    for arm in ("bos", "rope"):
        for seed in (0, 1):
            values = {f"perplexity.kept{kept}": 5.0 + 20 / (1 + kept) + seed for kept in (0, 1, 4, 8)}
            values |= {"perplexity.kept4_in_text": 12.0, "perplexity_sampled.kept4": 5.1, "perplexity_sampled.recomputed": 5.0}
            values |= {"perplexity_start.dense": 90.0}
            names = ("kept0", "kept1", "kept4", "kept8", "kept4_in_text", "recomputed", "dense")
            arrays = {f"loss_by_position.{way}": np.linspace(2, 1.5 + seed / 9, 4) + i / 9 for i, way in enumerate(names)}
            sampled = {f"sampled_{name}": losses for name, losses in arrays.items() if "kept" in name}
            arrays |= sampled | {
                "position_edges": edges,
                "position_edges.dense": edges,
                "first_token_mass": np.full((2, 4), 0.3),
            }
            measure = {"tokens": 1024, "cache": None, "dense": 256, "stride": 16}
            config = {"data": {"length": 64}, "model": {"layers": 1, "width": 64}, "measure": measure}
            made = record(STUDY, arm, seed, measurements=measured(values, "1"), config=config)
            write_record(folder / arm / str(seed), made, [], arrays)
            stored.append(StoredRecord(folder / arm / str(seed), made))
    return stored


def test_a_table_has_a_row_a_policy_beside_what_was_published(tmp_path: Path) -> None:
    records = [entry.record for entry in _stored(tmp_path)]
    shown = table(records)
    assert shown.columns == ("cache", "tokens", "RoPE", "RoPE, fixed BOS", "Llama-2 7B", "160M")
    assert [row[:2] for row in shown.rows] == [
        ("window, none kept", "all"),
        ("1 kept", "all"),
        ("4 kept", "all"),
        ("8 kept", "all"),
        ("4 kept, positions of the text", "all"),
        ("4 kept", "those re-computed"),
        ("window, re-computed", "those re-computed"),
        ("full attention", "first 256"),
    ]
    assert isinstance(shown.rows[0][2], Statistic)
    assert shown.rows[0][4:] == ("3359.95", "27.87, 29214, 1235")
    assert shown.rows[4][4:] == (MISSING, MISSING)
    assert "a stream of 1024 held-out tokens through a cache of 64 entries" in markdown(shown)
    assert [label(way) for way in ways(records)][-1] == "4 kept, positions of the text"


def test_figures_have_their_names_and_do_not_change(tmp_path: Path) -> None:
    stored = _stored(tmp_path)
    first, again = streaming_drawings(stored), streaming_drawings(stored)
    assert [drawing.name for drawing in first] == ["perplexity_over_stream", "stream_against_recomputed", "streaming_by_head"]
    assert first == again
    assert streaming_drawings([]) == []
