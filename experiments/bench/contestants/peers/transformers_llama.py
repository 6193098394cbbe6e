"""Llama of transformers."""

from collections.abc import Mapping

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from leadline.experiments.bench.contestants.peers.torch_llama import trained
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import BASE, EPSILON, Size, weights


def prepare(size: Mapping[str, int], compute: str) -> Prepared:
    """The value is the loss of the third step."""
    shape = Size(**size)
    model = loaded(shape)
    return trained(shape, model, compute, lambda ids: model(ids, use_cache=False).logits)


def loaded(size: Size) -> LlamaForCausalLM:
    """The model with the weights of `workloads.llama.weights`."""
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
    arrays = {name: torch.from_numpy(array) for name, array in weights(size).items()}
    model.load_state_dict(arrays | {"lm_head.weight": arrays["model.embed_tokens.weight"]})
    return model
