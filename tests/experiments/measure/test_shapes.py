"""Parameters and caches counted from shapes: against the weights of our decoder, our cache, and published totals."""

import math
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from leadline.experiments.config.base import validated
from leadline.experiments.config.exact import Released, ReleasedModel, Shape
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config, matmul_parameters
from leadline.experiments.measure.bound import RELEASED
from leadline.experiments.measure.shapes import active_parameters, cache_share, layer_caches, parameters, product_parameters
from leadline.experiments.runtime.errors import UserError
from leadline.model.cache.full import full_cache
from leadline.model.decoder import Decoder, init_decoder
from tests.experiments.committed import COMMITTED

(EXACT,) = [study.exact for _, study in COMMITTED if isinstance(study.exact, Released)]
MODELS: dict[str, ReleasedModel] = EXACT.models
# By transformers, and by the model cards that state them to the last digit.
TOTALS = {
    "bert_base": 109_482_240,
    "gpt2_small": 124_439_808,
    "llama_7b": 6_738_415_616,
    "llama_2_7b": 6_738_415_616,
    "llama_3_8b": 8_030_261_248,
    "mistral_7b": 7_241_732_096,
    "mixtral_8x7b": 46_702_792_704,
    "qwen25_7b": 7_615_616_512,
    "gemma_2_2b": 2_614_341_888,
    "gemma_2_9b": 9_241_705_984,
    "gemma_3_12b": 11_766_034_176,
    "smollm2_135m": 134_515_008,
    "gpt_oss_20b": 20_914_757_184,
}
SMALL: dict[str, Any] = {
    "vocabulary": 11,
    "context": 16,
    "model": {"layers": 3, "width": 16, "heads": 4, "kv_heads": 2, "hidden": 24, "position": {"kind": "rope", "base": 100.0}},
}
LATENT = {"query_rank": 6, "rank": 5, "rotated": 4}


def changed(**changes: Any) -> dict[str, Any]:
    """The settings of the small shape with other values, of the shape or of its model."""
    of_shape = {name: value for name, value in changes.items() if name in Shape.model_fields}
    of_model = {name: value for name, value in changes.items() if name not in of_shape}
    return SMALL | of_shape | {"model": SMALL["model"] | of_model}


def small(**changes: Any) -> Shape:
    """The small shape with other values."""
    return Shape.model_validate(changed(**changes))


SMALL_SHAPES = {
    "plain": {},
    "tied, LayerNorm": {"norm": "layer", "tied": True},
    "biases": {"biases": ["query", "key", "value", "output", "feedforward"], "tied": False},
    "one bias": {"biases": ["output"]},
    "experts": {"experts": 5, "active_experts": 2, "biases": ["feedforward"]},
    "without a gate": {"feedforward": "gelu"},
    "sandwich": {"norm_placement": "sandwich"},
    "parallel": {"norm_placement": "parallel_one_norm", "embedding_norm": True},
    "norms of queries and keys": {"qk_norm": True},
    "joint norms of queries and keys": {"qk_norm": True, "joint_qk_norm": True},
    "learned sink": {"sink": "learned"},
    "learned sinks in layers with a window": {"window": 4, "windowed": [True, False], "window_sink": "learned"},
    "two bases": {"window": 4, "windowed": [True, False], "window_position": {"kind": "rope", "base": 10.0}},
    "learned positions": {"position": "learned", "unembedding_bias": True},
    "wide heads": {"head_dim": 12},
}
# What our decoder can express. The layers of BERT are there; its types of tokens and its pooler are no part of a decoder.
SHAPES: dict[str, Shape] = {name: small(**changes) for name, changes in SMALL_SHAPES.items()} | {
    name: shape for name, shape in MODELS.items() if shape.latent is None
}


def cache_bytes(shape: Shape, tokens: int, bits: int) -> float:
    return layer_caches(shape.model, tokens, bits, shape.latent).sum()


def weights(shape: Shape) -> Decoder:
    """Those of our decoder, as shapes."""
    cfg = decoder_config(shape.model, shape.vocabulary, shape.context)
    return jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg))


def size(tree: object) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_the_weights_of_our_decoder(name: str) -> None:
    """Which has a sink logit for each head whether it is trained or not, and a norm after the last layer in any case."""
    shape = SHAPES[name]
    p, counted = weights(shape), parameters(shape)
    unused = shape.model.untrained_logits
    unused += size(p.final_norm) if shape.model.norm_placement == "post" else 0
    assert sum(counted.values()) - counted["other"] == size(p) - unused
    assert counted["embedding"] == size(p.embedding)
    assert counted["positions"] == size(p.positions)
    assert counted["unembedding"] == size(p.unembedding) + size(p.unembedding_bias)
    assert counted["feedforward"] == size(p.blocks.feedforward)


@pytest.mark.parametrize("name", TOTALS)
def test_a_released_model_has_the_published_number_of_parameters(name: str) -> None:
    assert sum(parameters(MODELS[name]).values()) == TOTALS[name]


def test_gemma_2_has_the_published_parameters_outside_its_embedding() -> None:
    """Gemma Team 2024, Table 2. Its embedding has 256,128 rows there and 256,000 in the release."""
    for name, published, embedding in (("gemma_2_2b", 2_024_517_888, 590_118_912), ("gemma_2_9b", 8_324_201_984, 917_962_752)):
        counted = parameters(MODELS[name])
        assert sum(counted.values()) - counted["embedding"] == published
        assert embedding - counted["embedding"] == 128 * MODELS[name].model.width


def test_gemma_3_has_the_published_parameters_outside_its_embedding() -> None:
    """Gemma Team 2025, Table 1: 10,759 million."""
    counted = parameters(MODELS["gemma_3_12b"])
    assert round((sum(counted.values()) - counted["embedding"]) / 1e6) == 10_759


def test_gpt_oss_has_the_published_parts() -> None:
    """OpenAI 2025, Table 1, in billions: MLP 19.12, attention 0.64, embedding and unembedding 1.16, active 3.61."""
    counted = parameters(MODELS["gpt_oss_20b"])
    table = (counted["feedforward"], counted["attention"], counted["embedding"] + counted["unembedding"])
    assert [round(number / 1e9, 2) for number in table] == [19.12, 0.64, 1.16]
    assert round(active_parameters(MODELS["gpt_oss_20b"]) / 1e9, 2) == 3.61


@pytest.mark.parametrize(
    ("name", "total", "active"), [("deepseek_67b", 67, 67), ("deepseek_v2", 236, 21), ("deepseek_v3", 671, 37)]
)
def test_deepseek_has_the_published_billions(name: str, total: int, active: int) -> None:
    """The abstracts of their papers; README_WEIGHTS of DeepSeek-V3 has 36.6 active, counted as here."""
    shape = MODELS[name]
    assert round(sum(parameters(shape).values()) / 1e9) == total
    assert round(active_parameters(shape) / 1e9) == active


def test_latent_attention_is_counted_matrix_by_matrix() -> None:
    """D = 16, N = 4, H = 4, ranks 6 and 5, 4 rotated channels."""
    shape = small(latent=LATENT, kv_heads=None)
    down, up = 16 * 6 + 16 * (5 + 4), 6 * 4 * (4 + 4) + 5 * 4 * 4 + 5 * 4 * 4
    assert parameters(shape)["attention"] == 3 * (down + up + 16 * 16)
    assert parameters(shape)["norms"] == 3 * (2 * 16 + 6 + 5) + 16
    assert cache_share(shape) == (5 + 4) / (2 * 16)
    assert cache_bytes(shape, 7, 16) == 2 * 7 * 3 * (5 + 4)


def test_shared_experts_and_dense_layers() -> None:
    """One dense layer of 40 channels, two of 2 + 5 experts of 24 channels and a router."""
    shape = small(experts=5, active_experts=2, shared_experts=2, dense_layers=1, dense_hidden=40)
    assert parameters(shape)["feedforward"] == 3 * 16 * 40 + 2 * (7 * 3 * 16 * 24 + 5 * 16)
    assert sum(parameters(shape).values()) - active_parameters(shape) == 2 * 3 * 3 * 16 * 24


@pytest.mark.parametrize("name", ["plain", "experts", "tied, LayerNorm", "llama_3_8b", "mixtral_8x7b", "smollm2_135m"])
def test_active_parameters_are_those_of_products_norms_and_biases(name: str) -> None:
    shape = SHAPES[name]
    cfg = decoder_config(shape.model, shape.vocabulary, shape.context)
    norms_and_biases = parameters(shape)["norms"]
    if shape.model.biases:
        plain = shape.model_copy(update={"model": shape.model.model_copy(update={"biases": ()})})
        norms_and_biases += active_parameters(shape) - active_parameters(plain)
    assert active_parameters(shape) == matmul_parameters(cfg) + norms_and_biases
    assert product_parameters(shape) == matmul_parameters(cfg)


def test_no_embedding_of_an_encoder_is_active() -> None:
    assert active_parameters(MODELS["bert_base"]) == 86_041_344
    encoder = SHAPES["tied, LayerNorm"].model_copy(update={"encoder": True})
    assert active_parameters(SHAPES["tied, LayerNorm"]) - active_parameters(encoder) == 11 * 16


@pytest.mark.parametrize("name", ["plain", "wide heads"])
def test_the_cache_is_that_of_our_decoder(name: str, mesh: Mesh) -> None:  # noqa: ARG001
    shape = SHAPES[name]
    model = shape.model
    cache = full_cache(model.layers, 1, model.key_heads, model.head_width, room=7)
    assert cache_bytes(shape, 7, 32) == cache.key.nbytes + cache.value.nbytes


def test_layers_with_a_window_keep_no_more_than_it() -> None:
    every, other = small(window=5), small(window=5, windowed=[True, False])
    tokens = np.array([cache_bytes(shape, 12, 8) / (2 * 2 * 4) for shape in (small(), every, other)])
    np.testing.assert_array_equal(tokens, [3 * 12, 3 * 5, 5 + 12 + 5])
    assert cache_bytes(every, 4, 16) == cache_bytes(small(), 4, 16)


def test_neither_the_vocabulary_nor_the_number_of_heads_is_in_the_cache() -> None:
    shapes = (small(kv_heads=None), small(kv_heads=None, vocabulary=99), small(kv_heads=None, heads=2))
    assert len({cache_bytes(shape, 16, 16) for shape in shapes}) == 1
    assert sum(parameters(shapes[0]).values()) == sum(parameters(shapes[2]).values()) != sum(parameters(shapes[1]).values())


def test_a_hypothetical_model_differs_from_the_released_one_in_one_thing() -> None:
    for name, variant, keys in (
        ("llama_2_7b", "llama_2_7b_128256_ids", {"vocabulary"}),
        ("llama_2_7b", "llama_2_7b_8_heads", {"heads"}),
        ("mistral_7b", "mistral_7b_no_window", {"window"}),
        ("gemma_3_12b", "gemma_3_12b_no_window", {"window", "windowed", "window_position"}),
        ("mixtral_8x7b", "mixtral_8x7b_131072_tokens", {"context"}),
    ):
        released, variation = (MODELS[arm].model_dump(exclude={"label"}) for arm in (name, variant))
        flat, varied = ({**shape, **shape["model"]} for shape in (released, variation))
        assert {entry for entry in flat if flat[entry] != varied[entry]} - {"model"} == keys


@pytest.mark.parametrize(
    ("published", "name"),
    [
        ("llama2", "llama_2_7b"),
        ("llama3", "llama_3_8b"),
        ("mixtral", "mixtral_8x7b"),
        ("qwen2.5", "qwen25_7b"),
        ("gpt_oss", "gpt_oss_20b"),
        ("smollm2", "smollm2_135m"),
        ("gemma2", "gemma_2_9b"),
    ],
)
def test_bases_and_contexts_are_those_of_the_study_of_bases(published: str, name: str) -> None:
    (table,) = [table for table in RELEASED if table.key == published]
    shape = MODELS[name]
    assert isinstance(shape.model.position, Rope)
    assert (table.head_dim, table.bases) == (shape.rotated, {shape.base_context: shape.model.position.base})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "t5"}, "weights of position 't5' are not counted; those of rope"),
        ({"sink": "key_bias"}, "weights of a gate, of a key bias and of a scalable softmax are not counted"),
        ({"latent": LATENT}, "latent attention has no biases, no kv_heads and no qk_norm here"),
        ({"shared_experts": 1}, "shared_experts and dense_layers belong to a model with experts"),
        ({"experts": 2, "dense_layers": 4}, "dense_layers = 4 is more than the 3 layers"),
    ],
)
def test_what_is_not_counted_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        validated(Shape, changed(**changes), "a file")
