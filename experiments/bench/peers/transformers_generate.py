"""transformers' own `generate`: a dynamic cache that grows with the text."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from experiments.bench.llama import Size, tokens
from experiments.bench.peers.transformers_llama import loaded
from experiments.bench.worker import Prepared


def prepare(size: Mapping[str, int], count: int) -> Prepared:
    """`count` tokens behind a prompt that is read already, all but its last token. It forgets nothing, so it has no value."""
    own = Size(**size)
    model: Any = loaded(own).eval()
    model.generation_config.eos_token_id = None
    ids = torch.from_numpy(tokens(own)[:, :-1])
    with torch.inference_mode():
        read = model(ids[:, :-1], past_key_values=DynamicCache(config=model.config)).past_key_values

    def work() -> Tensor:
        own_cache = copy.deepcopy(read)
        with torch.inference_mode():
            return model.generate(
                ids, past_key_values=own_cache, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
            )

    assert work().shape == (own.batch, own.length + count)
    return Prepared(work)
