"""Random tiny models of transformers and their weights in our trees."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from leadline.model.block import Block, BlockConfig
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.feedforward import FeedForward
from leadline.model.norm import Norm

Tensors = dict[str, np.ndarray]
VOCABULARY, WIDTH, HEADS, SIZE, HIDDEN, LAYERS, CONTEXT = 23, 32, 4, 8, 64, 3, 64


def magnified(model: PreTrainedModel) -> PreTrainedModel:
    """In float64 with large random weights, norms included: those of the library's own initialiser are so small that a wrong
    rotation or scale would hide behind them. Biases that our layers do not have are zero; LayerNorm's are not."""
    generator = torch.Generator().manual_seed(0)
    model = model.double().eval()
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        is_norm = any(part in name for part in ("norm", "ln_"))
        with torch.no_grad():
            if weight.ndim == 2:
                weight.copy_(noise * (1.0 if "wpe" in name or "wte" in name or "embed" in name else 2 * WIDTH**-0.5))
            elif is_norm:
                weight.copy_(0.3 * noise + (0 if name.endswith("bias") else 1))
            else:
                weight.zero_()
    return model


def llama(**rope: object) -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        head_dim=SIZE,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, **rope},
        attn_implementation="eager",
    )
    return magnified(LlamaForCausalLM(config))


def gpt2() -> PreTrainedModel:
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": HIDDEN, "n_positions": CONTEXT}
    config = GPT2Config(vocab_size=VOCABULARY, activation_function="gelu", attn_implementation="eager", **sizes)
    return magnified(GPT2LMHeadModel(config))


def configuration(kind: str) -> DecoderConfig:
    block = {"width": WIDTH, "heads": HEADS, "head_dim": SIZE, "hidden": HIDDEN}
    if kind == "llama":
        return DecoderConfig(VOCABULARY, LAYERS, BlockConfig(kv_heads=HEADS // 2, activation="swiglu", **block), tied=False)
    layers = BlockConfig(kv_heads=HEADS, activation="gelu", layer_norm=True, **block)
    return DecoderConfig(VOCABULARY, LAYERS, layers, tied=True, learned_positions=CONTEXT)


def _stacked(tensors: Tensors, name: str) -> np.ndarray:
    """One weight of every layer; `#` stands for the layer."""
    return np.stack([tensors[name.replace("#", str(layer))] for layer in range(LAYERS)])


def _transposed(tensors: Tensors, name: str) -> np.ndarray:
    """torch keeps [out, in], we [in, out]."""
    return _stacked(tensors, name).swapaxes(1, 2)


# What none of these models has.
BIASES_AND_SCALES = ("key_bias", "value_bias", "length_scale", "phase", "position_bias")
ABSENT = dict.fromkeys((*BIASES_AND_SCALES, "gate", "query_norm", "key_norm", "attention_end", "feedforward_end"))


def _blocks(norms: Sequence[Norm], projections: Sequence[np.ndarray], output: np.ndarray, feedforward: FeedForward) -> Block:
    """Every layer; `projections` are those of query, key and value."""
    heads = (w.reshape(LAYERS, WIDTH, -1, SIZE) for w in projections)
    return Block(
        attention_norm=norms[0],
        **dict(zip(("query", "key", "value"), heads, strict=True)),
        output=output.reshape(LAYERS, HEADS, SIZE, WIDTH),
        sink_logit=np.full((LAYERS, HEADS), -np.inf),
        feedforward_norm=norms[1],
        feedforward=feedforward,
        **ABSENT,
    )


def from_llama(t: Tensors) -> Decoder:
    layer = "model.layers.#."
    *projections, output = (_transposed(t, f"{layer}self_attn.{name}_proj.weight") for name in "qkvo")
    feedforward = FeedForward(**{name: _transposed(t, f"{layer}mlp.{name}_proj.weight") for name in ("up", "gate", "down")})
    norms = [Norm(_stacked(t, f"{layer}{name}_layernorm.weight"), None) for name in ("input", "post_attention")]
    blocks, final_norm = _blocks(norms, projections, output, feedforward), Norm(t["model.norm.weight"], None)
    return Decoder(t["model.embed_tokens.weight"], None, blocks, final_norm, t["lm_head.weight"])


def from_gpt2(t: Tensors) -> Decoder:
    """Its query, key and value are one matrix, side by side in this order; its matrices are [in, out] already."""
    layer, norm_parts = "transformer.h.#.", ("weight", "bias")
    names = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    joined, output, up, down = (_stacked(t, f"{layer}{name}.weight") for name in names)
    norms = [Norm(*(_stacked(t, f"{layer}{name}.{part}") for part in norm_parts)) for name in ("ln_1", "ln_2")]
    blocks = _blocks(norms, np.split(joined, 3, axis=2), output, FeedForward(up=up, gate=None, down=down))
    final_norm = Norm(*(t[f"transformer.ln_f.{part}"] for part in norm_parts))
    return Decoder(t["transformer.wte.weight"], t["transformer.wpe.weight"], blocks, final_norm, None)
