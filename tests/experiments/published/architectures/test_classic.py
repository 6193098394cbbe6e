"""What config.json of GPT-2 and the models after it means, and which of their settings are refused."""

from typing import Any

import numpy as np
import pytest

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import LearnedPositions, Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import LongRope
from leadline.experiments.published.architectures.gpt import BIASES
from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.load import configured
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.architectures.real_configs import (
    BLOOM,
    FALCON,
    FALCON_40B,
    FALCON_RW,
    GPT2,
    MPT,
    MPT_ATTENTION,
    PHI2,
    PHI3,
    PYTHIA,
)
from tests.experiments.published.tiny import TENSORS

LAYER_NORM: dict[str, Any] = {"norm": "layer", "norm_epsilon": 1e-5}
FALCON_7B = ModelConfig(
    **LAYER_NORM,
    layers=32,
    width=4544,
    heads=71,
    kv_heads=1,
    hidden=18176,
    norm_placement="parallel_one_norm",
    feedforward="gelu",
    position=Rope(base=10000.0),
)
MODELS: dict[str, tuple[dict[str, Any], int, ModelConfig]] = {
    "gpt2": (
        GPT2,
        1024,
        ModelConfig(
            **LAYER_NORM,
            layers=12,
            width=768,
            heads=12,
            hidden=3072,
            feedforward="gelu_tanh",
            biases=BIASES,
            position=LearnedPositions(capacity=1024),
        ),
    ),
    "pythia-160m": (
        PYTHIA,
        2048,
        ModelConfig(
            **LAYER_NORM,
            layers=12,
            width=768,
            heads=12,
            hidden=3072,
            norm_placement="parallel",
            feedforward="gelu",
            biases=BIASES,
            position=Rope(base=10000.0, partial=0.25),
            tied=False,
        ),
    ),
    "bloom-560m": (
        BLOOM,
        2048,
        ModelConfig(
            **LAYER_NORM,
            layers=24,
            width=1024,
            heads=16,
            feedforward="gelu_tanh",
            biases=BIASES,
            position=Alibi(),
            embedding_norm=True,
        ),
    ),
    "mpt-7b": (
        MPT,
        2048,
        ModelConfig(**LAYER_NORM, layers=32, width=4096, heads=32, hidden=16384, feedforward="gelu", position=Alibi()),
    ),
    "mpt-7b-storywriter": (
        MPT | {"attn_config": MPT_ATTENTION | {"alibi_bias_max": 16, "clip_qkv": 6}, "max_seq_len": 65536},
        65536,
        ModelConfig(
            **LAYER_NORM,
            layers=32,
            width=4096,
            heads=32,
            hidden=16384,
            feedforward="gelu",
            position=Alibi(exponent=16.0),
            clip_qkv=6.0,
        ),
    ),
    "falcon-7b": (FALCON, 2048, FALCON_7B),
    "falcon-40b": (
        FALCON_40B,
        2048,
        FALCON_7B.model_copy(
            update={"layers": 60, "width": 8192, "heads": 128, "kv_heads": 8, "hidden": 32768, "norm_placement": "parallel"}
        ),
    ),
    "falcon-rw-1b": (
        FALCON_RW,
        2048,
        ModelConfig(
            **LAYER_NORM,
            layers=24,
            width=2048,
            heads=32,
            kv_heads=32,
            hidden=8192,
            feedforward="gelu",
            biases=BIASES,
            position=Alibi(factor=0.125),
        ),
    ),
    "phi-2": (
        PHI2,
        2048,
        ModelConfig(
            **LAYER_NORM,
            layers=32,
            width=2560,
            heads=32,
            kv_heads=32,
            hidden=10240,
            norm_placement="parallel_one_norm",
            feedforward="gelu_tanh",
            biases=BIASES,
            position=Rope(base=10000.0, partial=0.4),
            tied=False,
            unembedding_bias=True,
        ),
    ),
    "phi-3-mini-128k": (
        PHI3,
        131072,
        ModelConfig(
            layers=32,
            width=3072,
            heads=32,
            kv_heads=32,
            head_dim=96,
            hidden=8192,
            norm_epsilon=1e-5,
            position=Rope(
                base=10000.0, scaling=LongRope(short=(1.0,) * 48, long=(4.0,) * 48, factor=32.0, original_length=4096)
            ),
            window=262144,
            tied=False,
        ),
    ),
}


def checkpoint(config: dict[str, Any]) -> Checkpoint:
    return Checkpoint("tiny", config, TENSORS, None, (), {}.__getitem__)


@pytest.mark.parametrize("name", MODELS)
def test_the_configuration_of_a_real_model(name: str) -> None:
    config, context, model = MODELS[name]
    assert configured(checkpoint(config))[1:] == (model, context)


REFUSED = [
    (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
    (GPT2, {"add_cross_attention": True}, "add_cross_attention = True"),
    (GPT2, {"activation_function": "quick_gelu"}, "activation_function = 'quick_gelu'"),
    (PYTHIA, {"rotary_pct": None}, "lacks 'rotary_pct'"),
    (PYTHIA, {"rotary_emb_base": None}, "lacks 'rotary_emb_base'"),
    (PYTHIA, {"is_decoder": True}, "is_decoder = True"),
    (BLOOM, {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm = True"),
    (BLOOM, {"n_inner": 1024}, "n_inner = 1024"),
    (BLOOM, {"hidden_size": 512}, "different values for hidden_size and n_embed"),
    (MPT, {"no_bias": False}, "no_bias = False"),
    (MPT, {"norm_type": "rmsnorm"}, "norm_type = 'rmsnorm'"),
    (MPT, {"attn_config": MPT_ATTENTION | {"alibi": None}}, "lacks 'alibi'"),
    (MPT, {"attn_config": MPT_ATTENTION | {"alibi": False}}, "attn_config: config.json has alibi = False"),
    (MPT, {"attn_config": MPT_ATTENTION | {"qk_ln": True}}, "qk_ln = True"),
    (MPT, {"attn_config": MPT_ATTENTION | {"softmax_scale": 0.1}}, "softmax_scale = 0.1"),
    (MPT, {"attn_config": MPT_ATTENTION | {"kv_n_heads": 8}}, "attn_config: config.json says kv_n_heads = 8"),
    (FALCON, {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm = True"),
    (FALCON, {"new_decoder_architecture": True, "parallel_attn": False}, "without parallel_attn"),
    (FALCON, {"num_ln_in_parallel_attn": 2}, "num_ln_in_parallel_attn = 2"),
    (FALCON, {"ff_factor": 8}, "ff_factor = 8"),
    (PHI2, {"qk_layernorm": True}, "qk_layernorm = True"),
    (PHI2, {"partial_rotary_factor": None}, "lacks 'partial_rotary_factor'"),
    (PHI3, {"rope_theta": None}, "lacks 'rope_theta'"),
]


@pytest.mark.parametrize(("config", "change", "message"), REFUSED)
def test_what_cannot_be_expressed_is_refused_by_name(config: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        configured(checkpoint(config | change))


def test_scores_that_are_not_divided_by_the_square_root_have_a_temperature() -> None:
    _, model, _ = configured(checkpoint(GPT2 | {"scale_attn_weights": False}))
    np.testing.assert_allclose(model.temperature, 64**-0.5)
