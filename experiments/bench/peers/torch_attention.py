"""Attention in PyTorch: scaled_dot_product_attention, which chooses its kernel, and the attention that each key receives."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import HEAD, arrays, value


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """On a GPU if there is one. The value is the sum of squares of the gradients."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    *qkv, weight = torch.from_numpy(arrays(texts, tokens, heads)).to(device, getattr(torch, compute))
    for x in qkv:
        x.requires_grad_()

    def work() -> tuple[Tensor, ...]:
        out = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in qkv), is_causal=True).transpose(1, 2)
        loss = (weight * out).float().sum()
        gradients = torch.autograd.grad(loss, qkv)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return gradients

    return Prepared(work, {"value": value(x.float().cpu().numpy() for x in work())})


def prepare_received(tokens: int, heads: int) -> Prepared:
    """The softmax of all scores, in place where possible. The value is the sum of squares of the received attention."""
    q, k = (torch.from_numpy(x[0]).transpose(0, 1) for x in arrays(1, tokens, heads, 2))
    masked = torch.ones(tokens, tokens, dtype=torch.bool).triu_(1)

    def work() -> Tensor:
        with torch.inference_mode():
            scores = (q * HEAD**-0.5) @ k.mT
            return scores.masked_fill_(masked, -torch.inf).softmax(-1).sum(1)

    return Prepared(work, {"value": value([work().numpy()])})
