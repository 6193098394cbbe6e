"""What the study of perplexity measures of models, against one window at a time; and the memory that it takes."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from experiments.build import decoder_config, extended
from experiments.config.data import TextData
from experiments.config.measure import ExtrapolationMeasure
from experiments.config.model import ModelConfig
from experiments.config.position import Alibi, Rope
from experiments.config.study import Arm, Start
from experiments.config.train import TrainConfig
from experiments.data.source import TextSource, open_source
from experiments.evaluate import evaluate_tokens
from experiments.measure.layers import sink_statistics
from experiments.measure.perplexity import position_edges
from experiments.population import JOBS_A_DEVICE
from experiments.position_tables import tables
from experiments.studies.extrapolation_measure import ExtrapolationMeasurer
from model.decoder import Decoder, apply_decoder, init_decoder

pytestmark = pytest.mark.usefixtures("in_use")

LENGTH, STRIDE, LAST = 32, 8, 12
ROPE = ModelConfig(layers=1, width=16, heads=2, hidden=16, position=Rope(base=100.0))


def _arm(name: str, model: ModelConfig, stride: int | None, start: Start | None = None, extensions=("none", "pi")) -> Arm:
    measure = ExtrapolationMeasure(
        tokens=128, lengths=(16, LENGTH), last=LAST, stride=stride, extensions=extensions, sequences=2
    )
    length = 16 if start is None else LENGTH
    data = TextData(corpus=("unread",), length=length, held_out=0.3)
    train = TrainConfig(steps=1, batch=2, learning_rate=1e-3)
    return Arm(name=name, model=model, data=data, train=train, measure=measure, start=start)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> TextSource:
    folder = tmp_path_factory.mktemp("corpus")
    for i in range(60):
        (folder / f"{i}.txt").write_text(f"Document {i} says that {i} times {i} is {i * i}, and that is all it says.")
    opened = open_source(TextData(corpus=(str(folder),), length=16, held_out=0.4), folder / "cache")
    assert isinstance(opened, TextSource)
    return opened


def _params(mesh: Mesh, seed: int) -> Decoder:  # noqa: ARG001
    cfg = decoder_config(ROPE, 259, 16)
    params = jax.jit(lambda: init_decoder(jax.random.key(seed), cfg))()
    return jax.tree.map(lambda leaf: 3 * leaf, params)  # far from an even guess


def _window_by_window(params: Decoder, model: ModelConfig, source: TextSource, stride: int | None) -> np.ndarray:
    """The losses of each window by itself, with numpy's log-softmax in float64."""
    rows = []
    text = source.text.parts[0].held_out.astype(np.int32)
    step = stride or LENGTH + 1
    count = 128 // LENGTH if stride is None else 1 + (128 - LENGTH) // stride
    for begin in range(0, count * step, step):
        window = text[begin : begin + LENGTH + 1]
        scores, _ = apply_decoder(
            params, jnp.asarray(window[None, :-1]), tables(model, 16, LENGTH), decoder_config(model, 259, 16)
        )
        scores = np.asarray(scores, np.float64)[0]
        total = np.log(np.sum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)) + scores.max(axis=1)
        rows.append(total - scores[np.arange(LENGTH), window[1:]])
    return np.array(rows)


@pytest.mark.parametrize("stride", [None, STRIDE])
def test_perplexities_are_those_of_single_windows(mesh: Mesh, source: TextSource, stride: int | None) -> None:
    params, arm = _params(mesh, 0), _arm("rope", ROPE, stride)
    (found,) = ExtrapolationMeasurer().final([arm], [params], source, decoder_config(ROPE, 259, 16), [])
    longer = extended(ROPE, "pi", 2.0)
    assert longer is not None
    for extension, model in (("none", ROPE), ("pi", longer)):
        rows, way = _window_by_window(params, model, source, stride), f"{extension}.{LENGTH}"
        new = LENGTH if stride is None else stride
        counted = [rows[0], *(row[-new:] for row in rows[1:])]
        last = [rows[0][-LAST:], *(row[-min(LAST, new) :] for row in rows[1:])]
        assert found[f"perplexity.{way}"] == pytest.approx(math.exp(np.concatenate(counted).mean()), rel=1e-4)
        assert found[f"perplexity_windows.{way}"] == pytest.approx(math.exp(np.mean([c.mean() for c in counted])), rel=1e-4)
        assert found[f"perplexity_last{LAST}.{way}"] == pytest.approx(math.exp(np.concatenate(last).mean()), rel=1e-4)
        by_position = [part.mean() for part in np.split(rows.mean(axis=0), position_edges(LENGTH)[1:-1])]
        np.testing.assert_allclose(found[f"loss_by_position.{way}"], by_position, rtol=1e-4)
    assert found["perplexity_documents.none.32"] != found["perplexity.none.32"]
    assert found["perplexity.pi.32"] != found["perplexity.none.32"]
    assert "perplexity.pi.16" not in found  # nothing to extend at the training length
    assert found["sink_rate.32"].shape == (1, 2)


def test_every_table_and_model_of_a_length_has_one_program(mesh: Mesh, source: TextSource) -> None:
    """More jobs than go through it at once: rounds neither compile anew nor mix up what belongs to whom."""
    count = JOBS_A_DEVICE * len(jax.devices()) // 2 + 3
    models = [ROPE, *[ROPE.model_copy(update={"position": Rope(base=50.0 + i)}) for i in range(count - 2)]]
    models.append(ROPE.model_copy(update={"position": Alibi()}))
    arms = [_arm(f"arm{i}", model, None) for i, model in enumerate(models)]
    params = [_params(mesh, 0), *[_params(mesh, 1)] * (count - 1)]
    programs: list[str] = []
    cfg = decoder_config(ROPE, 259, 16)
    found = ExtrapolationMeasurer().final(arms, params, source, cfg, programs)
    assert programs == ["measure at 16", "measure at 32"]
    assert not [name for name in found[-1] if ".pi." in name]
    for i in (0, count // 2, count - 1):
        (alone,) = ExtrapolationMeasurer().final([arms[i]], [params[i]], source, cfg, [])
        assert alone.keys() == found[i].keys()
        for name, value in alone.items():
            np.testing.assert_allclose(found[i][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_tuned_model_is_extended_from_its_first_length(mesh: Mesh, source: TextSource) -> None:
    params = _params(mesh, 0)
    pi = ROPE.model_copy(update={"position": Rope(base=100.0, scaling=Rope(base=1.0).scaling)})
    tuned = _arm("tuned", pi, None, Start(arm="rope", length=16, steps=1))
    longer = tuned.model_copy(update={"measure": tuned.measure.model_copy(update={"lengths": (16, 32, 64)})})
    (found,) = ExtrapolationMeasurer().final([longer], [params], source, decoder_config(ROPE, 259, 32), [])
    assert {name for name in found if name.startswith("perplexity.")} == {
        "perplexity.none.16",
        "perplexity.none.32",
        "perplexity.none.64",
        "perplexity.pi.64",
    }
    plain = _arm("plain", ROPE, None)
    plain = plain.model_copy(update={"measure": plain.measure.model_copy(update={"lengths": (64,)})})
    (other,) = ExtrapolationMeasurer().final([plain], [params], source, decoder_config(ROPE, 259, 16), [])
    np.testing.assert_allclose(found["perplexity.pi.64"], other["perplexity.pi.64"], rtol=1e-6)  # by 64 / 16 both


def test_memory_grows_linearly_with_the_length(mesh: Mesh) -> None:  # noqa: ARG001
    """One window at 32, 64 and 128 times 128 tokens: what XLA sets aside at most doubles with the length, and a little."""
    cfg = decoder_config(ROPE, 259, 128)
    params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg))

    def needed(length: int) -> int:
        def measured(params: Decoder, batches: jax.Array) -> object:
            return evaluate_tokens(
                params,
                tables(ROPE, 128, length),
                batches,
                cfg,
                of_layer=lambda trace, tokens: sink_statistics(trace, token=1, epsilon=0.3),  # noqa: ARG005
            )

        shape = jax.ShapeDtypeStruct((2, 1, length + 1), jnp.int32)
        found = jax.jit(measured).lower(params, shape).compile().memory_analysis()
        assert found is not None
        return found.temp_size_in_bytes

    sizes = [needed(length) for length in (4096, 8192, 16384)]
    for near, far in itertools.pairwise(sizes):
        assert far < 2.2 * near
    assert sizes[0] < 4096 * 4096  # bytes: not one byte a score of a single head
