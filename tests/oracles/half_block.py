"""The attention half of a block, x + attention(norm(x)): ours, and the same equations over whole matrices in torch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from leadline.model.attention.gate import GateConfig
from leadline.model.block import Block, BlockConfig, init_block
from leadline.model.feedforward import FeedForward
from leadline.model.layer import apply_block
from leadline.model.norm import Norm, init_norm
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import position_tables
from tests.oracles.compare import assert_close, to_torch

TOKENS, WIDTH, HEADS, GROUPS, SIZE, BASE = 5, 6, 4, 2, 4, 100.0
CONFIG = BlockConfig(width=WIDTH, heads=HEADS, kv_heads=GROUPS, head_dim=SIZE, hidden=1, activation="relu")
NORMS = ("attention_norm", "query_norm", "key_norm")
NAMES = (*NORMS, "query", "key", "value", "gate", "length_scale", "sink_logit", "key_bias", "value_bias", "phase", "output")

Named = dict[str, jax.Array]
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module", autouse=True)
def unoptimised() -> Iterator[None]:
    """Programs that run once take longer to optimise than to run. Imported by the modules that compare half blocks."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()


def random_half(cfg: BlockConfig) -> Named:
    """x, whatever of `NAMES` a block of this structure has (of a norm its scale), and plain values; no sink logit."""
    block = jax.eval_shape(lambda: init_block(jax.random.key(0), cfg, sink_logit=0.0, depth=1))
    found = {name: getattr(block, name) for name in NAMES}
    shapes = {name: w.scale.shape if name in NORMS else w.shape for name, w in found.items() if w is not None}
    rng = np.random.default_rng(0)
    drawn = {name: 0.7 * rng.standard_normal(shape) for name, shape in {"x": (2, TOKENS, WIDTH), **shapes}.items()}
    values = {"sink_logit": np.full(HEADS, -np.inf), "scale": 1.0, "cap": 2.0, "limits": [0.0, 1.0]}
    return {name: jnp.asarray(value, jnp.float32) for name, value in (drawn | values).items()}


def ours(named: Named, cfg: BlockConfig) -> jax.Array:
    """A feed-forward layer whose last matrix is 0 leaves the attention half."""
    silent = FeedForward(up=jnp.zeros((WIDTH, 1)), gate=None, down=jnp.zeros((1, WIDTH)))
    weights = {name: Norm(named[name], None) if name in NORMS and name in named else named.get(name) for name in NAMES}
    absent = dict.fromkeys(("position_bias", "attention_end", "feedforward_end"))
    block = Block(**weights, **absent, feedforward_norm=init_norm(WIDTH, bias=False), feedforward=silent)
    per_pair = SIZE if cfg.polar else SIZE // 2
    frequencies = inverse_frequencies(2 * per_pair, BASE)
    table = jax.tree.map(lambda leaf: leaf[0], position_tables(1, HEADS, 2 * per_pair, inverse_frequencies=frequencies))
    values = replace(table.attention, scale=named["scale"], cap=named["cap"], gate=named["limits"])
    return apply_block(block, named["x"], replace(table, attention=values), cfg)[0]


def theirs(named: Tensors, cfg: BlockConfig) -> torch.Tensor:
    h = F.rms_norm(named["x"], (WIDTH,), named["attention_norm"], eps=1e-6)
    q, k, v = (torch.tensordot(h, named[name], dims=1) for name in ("query", "key", "value"))
    if cfg.qk_norm:
        q, k = (F.rms_norm(y, (SIZE,), named[name], eps=1e-6) for y, name in ((q, "query_norm"), (k, "key_norm")))

    def gated(y: torch.Tensor, where: str) -> torch.Tensor:
        return y * gate_of(h, named, cfg.gate) if cfg.gate is not None and cfg.gate.where == where else y

    y = mixed(gated(q, "query"), gated(k, "key"), gated(v, "value"), named, cfg)
    y = torch.tensordot(gated(y, "output"), named["output"], dims=2)
    return named["x"] + gated(y, "projection")


def gate_of(h: torch.Tensor, named: Tensors, gate: GateConfig) -> torch.Tensor:
    """low + (high - low) · f(h·W), with axes of length 1 where what is gated shares a gate."""
    products = named["gate"] if gate.static else torch.tensordot(h[..., : gate.dims], named["gate"], dims=1)
    activation = {"sigmoid": torch.sigmoid, "silu": F.silu, "tanh": torch.tanh}[gate.activation](products)
    low, high = named["limits"]
    axis = {"head": -1, "shared": -2}.get(gate.per)
    return low + (high - low) * (activation if axis is None else activation.unsqueeze(axis))


def mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, named: Tensors, cfg: BlockConfig) -> torch.Tensor:
    """softmax(c · tanh(temperature · s ln n · q·k / sqrt(H) / c)) · v of causal heads, n counting from 1. A key
    k* and a value v* before the first token, which have no position, hold the sink logit too; without one they are 0."""
    turn = magnitude_and_phase if cfg.polar else complex_turn
    q, k = turn(q, None), turn(k, named.get("phase"))
    none = torch.zeros(GROUPS, k.shape[-1], dtype=torch.float64)
    rows = [named.get(name, none)[:, : y.shape[-1]] for name, y in (("key_bias", k), ("value_bias", v))]
    row_and_tokens = (torch.cat([row.expand(len(y), 1, *row.shape), y], dim=1) for row, y in zip(rows, (k, v), strict=True))
    k, v = (y.repeat_interleave(HEADS // GROUPS, dim=2) for y in row_and_tokens)
    scores = named["scale"] * torch.einsum("bqnh,bsnh->bnqs", q, k) / SIZE**0.5
    n = torch.arange(1, TOKENS + 1)
    if cfg.scalable_softmax:
        scores = scores * named["length_scale"][:, None, None] * torch.log(n)[:, None]
    if cfg.soft_cap:
        scores = named["cap"] * torch.tanh(scores / named["cap"])
    sink = named["sink_logit"][:, None, None].expand(-1, TOKENS, 1)
    unseen = torch.zeros(TOKENS, TOKENS, dtype=torch.float64).masked_fill(n[:, None] < n[None, :], -torch.inf)
    added = torch.cat([sink, unseen.expand(HEADS, -1, -1)], dim=-1)
    return torch.einsum("bnqs,bsnh->bqnh", torch.softmax(scores + added, dim=-1), v)


def turns(pairs: int) -> torch.Tensor:
    """e^(i · position · frequency), [T, 1, pairs]."""
    angles = torch.arange(TOKENS)[:, None] * torch.from_numpy(inverse_frequencies(2 * pairs, BASE))
    return torch.polar(torch.ones_like(angles), angles)[:, None]


def complex_turn(x: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
    """RoPE: the channels i and i + H/2 are a complex number."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.complex(first, second) * turns(SIZE // 2)
    return torch.cat([turned.real, turned.imag], dim=-1)


def magnitude_and_phase(x: torch.Tensor, phase: torch.Tensor | None) -> torch.Tensor:
    """PoPE: softplus(x) at the angle of the position, of a key plus δ in [-2π, 0]."""
    turned = F.softplus(x) * turns(SIZE)
    if phase is not None:
        bounded = phase.clamp(-2 * torch.pi, 0)
        turned = turned * torch.polar(torch.ones_like(bounded), bounded)
    return torch.cat([turned.real, turned.imag], dim=-1)


def assert_halves_equal(
    configs: Sequence[BlockConfig],
    *,
    against: Callable[[Tensors, BlockConfig], torch.Tensor] = theirs,
    unknown: Sequence[str] = (),
    tolerance: float = 1e-5,
    **changes: jax.Array,
) -> None:
    """Output, and gradients in x, all weights and all values but `unknown`, of blocks in one program: it compiles in half the
    time."""
    named = [{name: changes.get(name, value) for name, value in random_half(cfg).items()} for cfg in configs]
    w = jnp.asarray(np.random.default_rng(7).standard_normal((2, TOKENS, WIDTH)), jnp.float32)

    @jax.jit
    def both(named):
        def loss(named):
            outputs = [ours(one, cfg) for one, cfg in zip(named, configs, strict=True)]
            return sum(jnp.sum(w * y) for y in outputs), outputs

        return jax.grad(loss, has_aux=True)(named)

    gradients, outputs = both(named)
    for cfg, one, gradient, output in zip(configs, named, gradients, outputs, strict=True):
        copies = {name: to_torch(value, gradient=True) for name, value in one.items()}
        expected = against(copies, cfg)
        (to_torch(w) * expected).sum().backward()
        assert_close(output, expected, tolerance, f"output of {cfg}")
        for name, copy in copies.items():
            if name in unknown:
                continue
            reference = torch.zeros_like(copy) if copy.grad is None else copy.grad
            assert_close(gradient[name], reference, tolerance, f"gradient of {name} of {cfg}")
