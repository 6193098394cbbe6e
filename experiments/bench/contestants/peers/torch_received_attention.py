"""Received attention in PyTorch: the softmax of all scores, in place where possible."""

import torch

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import HEAD, arrays, value


def prepare(tokens: int, heads: int) -> Prepared:
    """The value is the sum of squares of the received attention."""
    q, k = (torch.from_numpy(x[0]).transpose(0, 1) for x in arrays(1, tokens, heads, 2))
    masked = torch.ones(tokens, tokens, dtype=torch.bool).triu_(1)

    def work() -> torch.Tensor:
        with torch.inference_mode():
            scores = (q * HEAD**-0.5) @ k.mT
            return scores.masked_fill_(masked, -torch.inf).softmax(-1).sum(1)

    return Prepared(work, {"value": value([work().numpy()])})
