"""transformers' own Llama."""

from collections.abc import Mapping

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from experiments.bench.llama import BASE, EPSILON, Size, weights
from experiments.bench.peers.torch_llama import trained
from experiments.bench.worker import Prepared


def prepare(size: Mapping[str, int], compute: str) -> Prepared:
    """The value is the loss of the third step."""
    own = Size(**size)
    model = loaded(own)
    return trained(own, model, compute, lambda ids: model(ids, use_cache=False).logits)


def loaded(size: Size) -> LlamaForCausalLM:
    """The model with the weights of `llama.weights`."""
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=size.length,
        rms_norm_eps=EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": BASE},
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config)
    found = {name: torch.from_numpy(array) for name, array in weights(size).items()}
    model.load_state_dict(found | {"lm_head.weight": found["model.embed_tokens.weight"]})
    return model
