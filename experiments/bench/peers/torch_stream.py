"""StreamingLLM in PyTorch with the algorithm of ours: a ring, keys turned once, the kept ones scored by a second query."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from experiments.bench.llama import BASE, EPSILON, Size, tokens, weights
from experiments.bench.ours_decode import checksum
from experiments.bench.worker import Prepared


def prepare(size: Mapping[str, int], count: int, window: int, kept: int) -> Prepared:
    """`count` tokens behind a prompt that is read already. The value is a sum of the tokens."""
    own = Size(**size)
    with torch.inference_mode():
        stream = Stream(own, window, kept)
        begun = [stream.read(column) for column in torch.from_numpy(tokens(own)[:, :-1]).unbind(1)][-1].argmax(-1)

    def work() -> Tensor:
        """Goes on from where it stands."""
        nonlocal begun
        found = []
        with torch.inference_mode():
            for _ in range(count):
                found.append(begun)
                begun = stream.read(begun).argmax(-1)
            return torch.stack(found, 1)

    return Prepared(work, {"value": checksum(work().numpy())})


class Stream:
    """Weights, those that see the same input joined to one matrix, and the cache [B, N, kept + window, H] of each layer."""

    def __init__(self, size: Size, window: int, kept: int) -> None:
        found = {name: torch.from_numpy(array) for name, array in weights(size).items()}
        self.heads, self.window, self.kept, self.place = size.heads, window, kept, 0
        self.embedding = found["model.embed_tokens.weight"]
        rows = [{n: found[f"model.layers.{i}.{n}_proj.weight"] for n in _NAMES} for i in range(size.layers)]
        self.layers = [
            (
                torch.cat([w[f"self_attn.{n}"] for n in "qkv"]),
                w["self_attn.o"],
                torch.cat([w["mlp.gate"], w["mlp.up"]]),
                w["mlp.down"],
            )
            for w in rows
        ]
        shape = (size.batch, size.heads, kept + window, size.head_dim)
        self.caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(size.layers)]
        self.frequencies = BASE ** (-torch.arange(0, size.head_dim, 2, dtype=torch.float64) / size.head_dim)

    def read(self, token: Tensor) -> Tensor:
        """The scores [B, V] behind one more token; the norms of the model are 1."""
        i, S = self.place, self.kept + self.window
        slot = i if i < self.kept else self.kept + (i - self.kept) % self.window
        cos, sin = self._turns([i, min(i, S - 1), i])
        x = self.embedding[token]
        for (qkv, o, up, down), (keys, values) in zip(self.layers, self.caches, strict=True):
            q, k, v = F.linear(_norm(x), qkv).unflatten(-1, (3, self.heads, -1)).unbind(1)
            q, first, keys[:, :, slot] = rotated(torch.stack([q, q, k]), cos, sin).unbind()
            values[:, :, slot] = v
            x = x + F.linear(self._attend(q, first, keys, values, min(i + 1, S)), o)
            gate, wide = F.linear(_norm(x), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * wide, down)
        self.place += 1
        return F.linear(_norm(x), self.embedding)

    def _attend(self, q: Tensor, first: Tensor, keys: Tensor, values: Tensor, filled: int) -> Tensor:
        keys, values, kept = keys[:, :, :filled], values[:, :, :filled], min(self.kept, filled)
        q, first = q[:, :, None] * q.shape[-1] ** -0.5, first[:, :, None] * q.shape[-1] ** -0.5
        scores = torch.cat([first @ keys[:, :, :kept].mT, q @ keys[:, :, kept:].mT], -1)
        return (scores.softmax(-1) @ values).flatten(1)

    def _turns(self, places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Of the queries, the queries for the kept keys, and the keys: [3, 1, 1, H / 2]."""
        angles = torch.tensor(places)[:, None, None, None] * self.frequencies
        return angles.cos().float(), angles.sin().float()


_NAMES = (*(f"self_attn.{n}" for n in "qkvo"), *(f"mlp.{n}" for n in ("gate", "up", "down")))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """[3, B, N, H] turned."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def _norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], None, EPSILON)
