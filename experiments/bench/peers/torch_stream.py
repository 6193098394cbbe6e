"""StreamingLLM in PyTorch with leadline's algorithm.

The cache is a ring, keys are rotated once, and a second query scores the initial tokens.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from leadline.experiments.bench.cases.decode import checksum
from leadline.experiments.bench.peers.torch_llama import rotated
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import BASE, EPSILON, Size, tokens, weights


def prepare(size: Size, count: int, window: int, initial_tokens: int) -> Prepared:
    """Decodes `count` tokens after a prompt that has been read. The value is a checksum of the tokens."""
    with torch.inference_mode():
        stream = Stream(size, window, initial_tokens)
        newest = [stream.read(column) for column in torch.from_numpy(tokens(size)[:, :-1]).unbind(1)][-1].argmax(-1)

    def work() -> Tensor:
        """Continues from the state of the stream."""
        nonlocal newest
        decoded = []
        with torch.inference_mode():
            for _ in range(count):
                decoded.append(newest)
                newest = stream.read(newest).argmax(-1)
            return torch.stack(decoded, 1)

    return Prepared(work, {"value": checksum(work().numpy())})


class Stream:
    """Weights, with those of one input joined to one matrix, and the cache [B, N, initial tokens + window, H] of each layer."""

    def __init__(self, size: Size, window: int, initial_tokens: int) -> None:
        arrays = {name: torch.from_numpy(array) for name, array in weights(size).items()}
        self.heads, self.window, self.initial_tokens, self.position = size.heads, window, initial_tokens, 0
        self.embedding = arrays["model.embed_tokens.weight"]

        def joined(layer: int, part: str, names: Sequence[str]) -> Tensor:
            return torch.cat([arrays[f"model.layers.{layer}.{part}.{name}_proj.weight"] for name in names])

        parts = (("self_attn", "qkv"), ("self_attn", "o"), ("mlp", ("gate", "up")), ("mlp", ("down",)))
        self.layers = [[joined(layer, *part) for part in parts] for layer in range(size.layers)]
        shape = (size.batch, size.heads, initial_tokens + window, size.head_dim)
        self.caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(size.layers)]
        self.frequencies = BASE ** (-torch.arange(0, size.head_dim, 2, dtype=torch.float64) / size.head_dim)

    def read(self, token: Tensor) -> Tensor:
        """The logits [B, V] after one more token. The scales of the norms are 1."""
        i, first_in_window = self.position, self.initial_tokens
        S = first_in_window + self.window
        slot = i if i < first_in_window else first_in_window + (i - first_in_window) % self.window
        angles = torch.tensor([i, min(i, S - 1), i])[:, None, None, None] * self.frequencies
        cos, sin = angles.cos().float(), angles.sin().float()  # [3, 1, 1, H / 2]: of q, q for the initial tokens, and k
        x = self.embedding[token]
        for (qkv, o, up, down), (keys, values) in zip(self.layers, self.caches, strict=True):
            q, k, v = F.linear(_norm(x), qkv).unflatten(-1, (3, self.heads, -1)).unbind(1)
            q, first, keys[:, :, slot] = rotated(torch.stack([q, q, k]), cos, sin).unbind()
            values[:, :, slot] = v
            x = x + F.linear(self._attend(q, first, keys, values, min(i + 1, S)), o)
            gate, wide = F.linear(_norm(x), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * wide, down)
        self.position += 1
        return F.linear(_norm(x), self.embedding)

    def _attend(self, q: Tensor, first: Tensor, keys: Tensor, values: Tensor, filled: int) -> Tensor:
        keys, values, initial = keys[:, :, :filled], values[:, :, :filled], min(self.initial_tokens, filled)
        q, first = q[:, :, None] * q.shape[-1] ** -0.5, first[:, :, None] * q.shape[-1] ** -0.5
        scores = torch.cat([first @ keys[:, :, :initial].mT, q @ keys[:, :, initial:].mT], -1)
        return (scores.softmax(-1) @ values).flatten(1)


def _norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], None, EPSILON)
