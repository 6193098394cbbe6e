"""Published architectures before Llama, and those of Phi, against transformers."""

from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    GPT2Config,
    GPTNeoXConfig,
    MptConfig,
    Phi3Config,
    PhiConfig,
    PreTrainedConfig,
)
from transformers.models.falcon import modeling_falcon
from transformers.models.mpt.modeling_mpt import MptModel

from leadline.experiments.config.to_tables import tables
from leadline.experiments.published.load import load
from leadline.experiments.published.open import open_checkpoint
from leadline.model.decoder import apply_decoder
from leadline.model.mesh import make_mesh
from tests.oracles.parity import (
    CONTEXT,
    HEADS,
    HIDDEN,
    LENGTHS,
    ROUNDING,
    SIZES,
    VOCABULARY,
    WIDTH,
    Pair,
    Parity,
    cases,
    difference,
    magnified,
    paired,
    texts_of,
)

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("quick_to_compile")]
ROPE = {"rope_type": "default", "rope_theta": 100.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 100.0,
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [1.0, 3.0, 5.0],
    "partial_rotary_factor": 0.75,
}


def gpt2(**more: Any) -> PreTrainedConfig:
    sizes = {"n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "n_positions": LENGTHS[-1], "vocab_size": VOCABULARY}
    return GPT2Config(**sizes, **more)


def gpt_neox(**more: Any) -> PreTrainedConfig:
    sizes = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
    return GPTNeoXConfig(**sizes, num_hidden_layers=2, **more)


def bloom(**more: Any) -> PreTrainedConfig:
    return BloomConfig(hidden_size=48, n_layer=2, n_head=6, vocab_size=VOCABULARY, **more)


def mpt(exponent: int = 8, **more: Any) -> PreTrainedConfig:
    """transformers has no bias beyond max_seq_len."""
    attention = {"alibi_bias_max": exponent, "clip_qkv": 1.5}
    sizes = {"d_model": 48, "n_layers": 2, "n_heads": 6, "max_seq_len": LENGTHS[-1]}
    return MptConfig(**sizes, vocab_size=VOCABULARY, attn_config=attention, **more)


def falcon(**more: Any) -> PreTrainedConfig:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "vocab_size": VOCABULARY}
    return FalconConfig(**sizes, max_position_embeddings=CONTEXT, **{"rope_parameters": ROPE, **more})


def phi(**more: Any) -> PreTrainedConfig:
    return PhiConfig(**SIZES, num_hidden_layers=2, rope_parameters={**ROPE, "partial_rotary_factor": 0.5}, **more)


def phi3(**more: Any) -> PreTrainedConfig:
    return Phi3Config(**SIZES, num_hidden_layers=2, pad_token_id=None, **{"rope_parameters": ROPE, **more})


CASES: dict[str, Callable[[], PreTrainedConfig]] = {
    "GPT-2": gpt2,
    "GPT-2 untied": lambda: gpt2(
        tie_word_embeddings=False, activation_function="relu", n_inner=HIDDEN, scale_attn_weights=False
    ),
    "Pythia": lambda: gpt_neox(rope_parameters={**ROPE, "partial_rotary_factor": 0.25}),
    "GPT-NeoX in sequence": lambda: gpt_neox(
        rope_parameters={**ROPE, "partial_rotary_factor": 0.75}, use_parallel_residual=False, attention_bias=False
    ),
    "BLOOM": bloom,
    "MPT": mpt,
    "MPT of another exponent": lambda: mpt(exponent=4),
    "Falcon 7B": falcon,
    "Falcon 40B": lambda: falcon(new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=HIDDEN),
    "Falcon 11B": lambda: falcon(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1),
    "Falcon RW": lambda: falcon(alibi=True, multi_query=False, parallel_attn=False, bias=True),
    "Phi": phi,
    "Phi-3": lambda: phi3(sliding_window=7),
    "Phi-4": lambda: phi3(rope_parameters=LONGROPE, original_max_position_embeddings=LENGTHS[0], tie_word_embeddings=True),
}


def slopes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's eager attention, which alone returns attention, adds the bias of this Falcon twice; its sdpa does not."""
    build = modeling_falcon.build_alibi_tensor
    monkeypatch.setattr(modeling_falcon, "build_alibi_tensor", lambda *given, **more: build(*given, **more) / 2)


def exponent_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's MPT leaves alibi_bias_max out, which MosaicML's has."""
    build = partialmethod(MptModel.build_mpt_alibi_tensor, alibi_bias_max=4)
    monkeypatch.setattr(MptModel, "build_mpt_alibi_tensor", build)


REPAIRS = {"Falcon RW": slopes_once, "MPT of another exponent": exponent_as_configured}


SLOW = ("GPT-2 untied", "MPT of another exponent", "Falcon 40B")


@pytest.fixture(scope="module", params=cases(CASES, SLOW))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        REPAIRS.get(request.param, lambda _: None)(monkeypatch)
        for pair in paired(CASES[request.param](), tmp_path_factory.mktemp("model")):
            if "embed_out.weight" in pair.checkpoint.entries:  # GPT-NeoX's name in files
                for theirs, _ in pair.computed.values():
                    theirs.gradients["embed_out.weight"] = theirs.gradients.pop("lm_head.weight")
            yield pair


class TestPublishedClassic(Parity):
    pass


def test_slopes_once_is_falcon_s_sdpa(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, tokens = magnified(CASES["Falcon RW"]()), torch.from_numpy(texts_of(LENGTHS[0]))
    sdpa = AutoModelForCausalLM.from_config(CASES["Falcon RW"](), attn_implementation="sdpa").eval()
    sdpa.load_state_dict(eager.state_dict())
    with torch.no_grad():
        theirs = sdpa(tokens).logits.numpy()
        slopes_once(monkeypatch)
        assert difference(eager(tokens).logits.numpy(), theirs) < ROUNDING


def test_bfloat16_is_as_near_as_that_of_transformers(tmp_path: Path) -> None:
    theirs, tokens = magnified(CASES["Pythia"]()), texts_of(LENGTHS[0])
    theirs.save_pretrained(tmp_path)
    with torch.no_grad():
        exact = theirs(torch.from_numpy(tokens)).logits.numpy()
        rounded = theirs.bfloat16()(torch.from_numpy(tokens)).logits.float().numpy()
    with jax.set_mesh(make_mesh()):
        loaded = load(open_checkpoint(str(tmp_path)), "bfloat16")
        assert loaded.params.blocks.query.dtype == jnp.bfloat16
        rows = tables(loaded.model, loaded.context, LENGTHS[0])
        apply = jax.jit(apply_decoder, static_argnames="cfg")
        logits, _ = apply(loaded.params, jnp.asarray(tokens, jnp.int32), rows, loaded.cfg)
    assert difference(np.asarray(logits), exact) < 1.5 * difference(rounded, exact)
