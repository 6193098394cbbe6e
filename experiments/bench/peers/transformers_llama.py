"""Llama of transformers: a training step, and `generate` with a dynamic cache that grows with the text."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from leadline.experiments.bench.peers.torch_llama import trained
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import BASE, EPSILON, Size, tokens, weights


def prepare(size: Size, compute: str) -> Prepared:
    """A training step."""
    model = loaded(size)
    return trained(size, model, compute, lambda ids: model(ids, use_cache=False).logits)


def prepare_generation(size: Size, count: int) -> Prepared:
    """Decodes `count` tokens after a prompt, read but for its last token. Nothing is evicted, so there is no value."""
    model: Any = loaded(size).eval()
    model.generation_config.eos_token_id = None
    ids = torch.from_numpy(tokens(size)[:, :-1])
    with torch.inference_mode():
        read = model(ids[:, :-1], past_key_values=DynamicCache(config=model.config)).past_key_values

    def work() -> Tensor:
        cache = copy.deepcopy(read)
        with torch.inference_mode():
            return model.generate(
                ids, past_key_values=cache, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
            )

    assert work().shape == (size.batch, size.length + count)
    return Prepared(work)


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
