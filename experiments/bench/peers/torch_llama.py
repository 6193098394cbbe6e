"""The model in PyTorch as users write it: fused scaled_dot_product_attention, fused AdamW, autocast for bfloat16."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads import llama
from leadline.experiments.bench.workloads.llama import EPSILON, Size, stepping


def prepare(size: Size, compute: str, compiled: bool = False) -> Prepared:
    """As users write it; `compiled` by torch.compile."""
    model = Llama(size)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in llama.weights(size).items()})
    return trained(size, model, compute, torch.compile(model) if compiled else model)


def trained(size: Size, model: nn.Module, compute: str, forward: Any) -> Prepared:
    """A training step. `forward` maps ids to logits; it runs on a GPU if there is one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    decayed = {True: [], False: []}
    for weight in model.parameters():
        decayed[weight.ndim > 1].append(weight)
    groups = [{"params": weights, "weight_decay": llama.WEIGHT_DECAY * matrix} for matrix, weights in decayed.items()]
    optimizer = torch.optim.AdamW(groups, lr=llama.LEARNING_RATE, betas=llama.BETAS, eps=llama.ADAM_EPSILON, fused=True)
    ids = torch.from_numpy(llama.tokens(size)).to(device)

    def work() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=compute == "bfloat16"):
            scores = forward(ids[:, :-1])
        loss = F.cross_entropy(scores.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), llama.CLIP)
        optimizer.step()
        return loss.item()

    return stepping(work)


def prepare_products(size: Size) -> Prepared:
    """The products of all layers with their weights, and their gradients by activations and weights."""
    calls = []
    for inner, outer, count in llama.projections(size):
        x, w, cotangent = torch.randn(size.tokens, inner), torch.randn(outer, inner), torch.randn(size.tokens, outer)
        calls.append((x, w, cotangent, count))

    def work() -> None:
        for x, w, cotangent, count in calls:
            for _ in range(count):
                _ = x @ w.T, cotangent @ w, cotangent.T @ x

    return Prepared(work, {"flops": llama.projection_flops(size)})


class Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(size.width, size.width, bias=False) for _ in "qkvo")

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.q_proj, self.k_proj, self.v_proj))
        o = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(size.width, EPSILON) for _ in range(2))
        self.self_attn, self.mlp = Attention(size), FeedForward(size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Its weights have the names of transformers' Llama."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(size.vocabulary, size.width),
                "layers": nn.ModuleList(Layer(size) for _ in range(size.layers)),
                "norm": nn.RMSNorm(size.width, EPSILON),
            }
        )
        frequencies = llama.BASE ** (-torch.arange(0, size.head_dim, 2) / size.head_dim)
        angles = torch.outer(torch.arange(size.length), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.model["embed_tokens"](ids)
        for layer in self.model["layers"]:
            x = layer(x, self.cos, self.sin)
        return self.model["norm"](x) @ self.model["embed_tokens"].weight.T


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE of x [B, N, T, H], in the type of x."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)
