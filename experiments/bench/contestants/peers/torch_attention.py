"""torch's scaled_dot_product_attention, which chooses its kernel."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import arrays, value


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
