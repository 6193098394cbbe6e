"""`generate` of transformers, with a dynamic cache that grows with the text."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from leadline.experiments.bench.contestants.peers.transformers_llama import loaded
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import Size, tokens


def prepare(size: Mapping[str, int], count: int) -> Prepared:
    """Decodes `count` tokens after a prompt, read but for its last token. Nothing is evicted, so there is no value."""
    shape = Size(**size)
    model: Any = loaded(shape).eval()
    model.generation_config.eos_token_id = None
    ids = torch.from_numpy(tokens(shape)[:, :-1])
    with torch.inference_mode():
        read = model(ids[:, :-1], past_key_values=DynamicCache(config=model.config)).past_key_values

    def work() -> Tensor:
        cache = copy.deepcopy(read)
        with torch.inference_mode():
            return model.generate(
                ids, past_key_values=cache, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
            )

    assert work().shape == (shape.batch, shape.length + count)
    return Prepared(work)
