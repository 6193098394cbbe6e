"""Column sums of causal attention in PyTorch: softmax of all scores, in place where it can be."""

import torch

from experiments.bench.heads import HEAD, arrays, value
from experiments.bench.worker import Prepared


def prepare(tokens: int, heads: int) -> Prepared:
    """The value is that of the sums."""
    q, k = (torch.from_numpy(x[0]).transpose(0, 1) for x in arrays(1, tokens, heads, 2))
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu_(1)

    def work() -> torch.Tensor:
        with torch.inference_mode():
            scores = (q * HEAD**-0.5) @ k.mT
            return scores.masked_fill_(hidden, -torch.inf).softmax(-1).sum(1)

    return Prepared(work, {"value": value([work().numpy()])})
