"""One block against its equations in float64, all mechanisms and all gradients; its trace, gates, and initial weights."""

import functools
from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.gate import GateConfig, apply_gate, gate_scores, gate_weights, gates
from leadline.model.attention.hyperparameters import Hyperparameters
from leadline.model.attention.scores import Scores
from leadline.model.block import Biased, Block, BlockConfig, init_block
from leadline.model.experts import Experts, mixture
from leadline.model.feedforward import FeedForward
from leadline.model.layer import apply_block
from leadline.model.linear import Matrix
from leadline.model.norm import Norm
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.t5 import T5
from leadline.model.positions.tables import position_tables
from tests.model.naive import numbers, whole_attention
from tests.refused import refused

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")

TOKENS, WIDTH, SIZE, BASE = 5, 6, 4, 100.0
PLAIN = BlockConfig(width=WIDTH, heads=4, kv_heads=2, head_dim=SIZE, hidden=5)
BIASED = replace(PLAIN, key_bias=True, soft_cap=True)
CONFIGS = {
    "post": replace(PLAIN, placement="post", layer_norm=True, activation="gelu", gate=GateConfig("output", "head")),
    "sandwich": replace(PLAIN, placement="sandwich", qk_norm=True, gate=GateConfig("output", "channel", "silu")),
    "scalable": replace(PLAIN, scalable_softmax=True, kv_heads=4, gate=GateConfig("output", "shared", "tanh")),
    "value": replace(BIASED, value_bias=True, gate=GateConfig("value", "head", dims=3)),
    "key": replace(BIASED, key_bias_dims=3, qk_norm=True, scalable_softmax=True, gate=GateConfig("key", "channel")),
    "query": replace(PLAIN, interleaved=True, activation="relu", gate=GateConfig("query", "shared", "silu", static=True)),
    "projection": replace(PLAIN, kv_heads=1, gate=GateConfig("projection", "channel")),
    "PoPE": replace(PLAIN, polar=True, qk_norm=True, scalable_softmax=True, gate=GateConfig("value", "channel", static=True)),
    "reordered": replace(
        PLAIN,
        placement="reordered",
        norm_offset=1.0,
        norm_epsilon=0.3,
        qk_norm=True,
        joint_qk_norm=True,
        clip=1.0,
        biases=("query", "key", "value"),
        activation="geglu_tanh",
    ),
    "parallel": replace(
        PLAIN, placement="parallel", layer_norm=True, norm_epsilon=0.3, activation="gelu_tanh", biases=get_args(Biased)
    ),
    "one norm": replace(PLAIN, placement="parallel_one_norm", experts=3, activation="gelu"),
    "experts": replace(PLAIN, experts=4, active_experts=2, activation="swiglu_clamped", biases=("output", "feedforward")),
    "query of all": replace(BIASED, value_bias=True, gate=GateConfig("query", "channel", zero=True)),
}


def weights(cfg: BlockConfig) -> tuple[Block, Hyperparameters]:
    """Random ones, scales near 1; and a temperature of the scores, a cap and the limits of a gate."""
    rng = np.random.default_rng(0)

    def leaf(path: Any, shape: jax.ShapeDtypeStruct) -> jax.Array:
        return jnp.asarray(np.float32(0.6 * rng.standard_normal(shape.shape) + (path[-1].name == "scale")))

    block = jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(lambda: init_block(jax.random.key(0), cfg)))
    if block.phase is not None:
        block = replace(block, phase=jnp.asarray(np.float32(rng.uniform(-7, 1, block.phase.shape))))
    return block, Hyperparameters(*(jnp.asarray(x, jnp.float32) for x in (0.6, 2.0, (0.0, 1.0), (-0.25, 2.0))))


def apply(p: Block, x: jax.Array, values: Hyperparameters, cfg: BlockConfig) -> Any:
    pairs = SIZE if cfg.polar else SIZE // 2
    table = position_tables(1, cfg.heads, 2 * pairs, inverse_frequencies=inverse_frequencies(2 * pairs, BASE))
    row = replace(jax.tree.map(lambda leaf: leaf[0], table), attention=values)
    return apply_block(p, x, row, cfg)[:2]


def normed(norm: Norm, x: jax.Array) -> jax.Array:
    x = x if norm.bias is None else x - x.mean(-1, keepdims=True)
    epsilon = norm.epsilon or (1e-6 if norm.bias is None else 1e-5)
    y = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * (norm.offset + norm.scale)
    return y if norm.bias is None else y + norm.bias


def rotated(x: jax.Array, cfg: BlockConfig, phase: jax.Array | None = None) -> jax.Array:
    """RoPE of pairs of channels as complex numbers; PoPE: softplus(x) at the angle of the position, of a key plus δ."""
    pairs = SIZE if cfg.polar else SIZE // 2
    angles = (np.arange(TOKENS)[:, None] * BASE ** (-np.arange(pairs) / pairs))[:, None]
    if cfg.polar:
        angles = angles if phase is None else angles + jnp.clip(phase, -2 * np.pi, 0)
        return jnp.concatenate([jax.nn.softplus(x) * f(angles) for f in (jnp.cos, jnp.sin)], axis=-1)
    z = x[..., 0::2] + 1j * x[..., 1::2] if cfg.interleaved else x[..., :pairs] + 1j * x[..., pairs:]
    z = z * np.exp(1j * angles)
    return jnp.stack([z.real, z.imag], axis=-1 if cfg.interleaved else -2).reshape(x.shape)


def mixed(p: Block, q: jax.Array, k: jax.Array, v: jax.Array, values: Hyperparameters, cfg: BlockConfig) -> jax.Array:
    """softmax(c · tanh(temperature · s ln n · q·k / sqrt(H) / c)) · v, n counting from 1. A key k* and a value v* before the
    first token, which have no position, hold the sink logit too; without one they are 0."""
    if p.length_scale is not None:
        q = q * p.length_scale[:, None] * np.log(np.arange(1, TOKENS + 1))[:, None, None]
    key = None if p.key_bias is None else jnp.pad(p.key_bias, [(0, 0), (0, SIZE - p.key_bias.shape[1])])
    cap = values.cap if cfg.soft_cap else None
    scores = Scores(1 / np.sqrt(SIZE), p.sink_logit, cap=cap, key_bias=key, value_bias=p.value_bias)
    return whole_attention(values.scale * q, k, v, scores=scores).output


FEEDFORWARD = {
    "swiglu": lambda up, gate: jax.nn.silu(gate) * up,
    "geglu_tanh": lambda up, gate: jax.nn.gelu(gate) * up,
    "swiglu_clamped": lambda up, gate: gate / (1 + jnp.exp(-1.702 * gate)) * (up + 1),  # none reaches 7
    "relu": lambda up, gate: jax.nn.relu(up),  # noqa: ARG005
    "gelu": lambda up, gate: jax.nn.gelu(up, approximate=False),  # noqa: ARG005
    "gelu_tanh": lambda up, gate: jax.nn.gelu(up),  # noqa: ARG005
}


def network(f: FeedForward, h: jax.Array, cfg: BlockConfig) -> jax.Array:
    def product(x: jax.Array, w: jax.Array, bias: jax.Array | None) -> jax.Array:
        return x @ w if bias is None else x @ w + bias

    gate = None if f.gate is None else product(h, f.gate, f.gate_bias)
    return product(FEEDFORWARD[cfg.activation](product(h, f.up, f.up_bias), gate), f.down, f.down_bias)


def feedforward(f: Any, h: jax.Array, cfg: BlockConfig) -> jax.Array:
    """One network, or all experts one after the other, each times its softmax among the active ones."""
    if not cfg.experts:
        return network(f, h, cfg)
    logits = h @ f.router if f.router_bias is None else h @ f.router + f.router_bias
    least = jnp.sort(logits, axis=-1)[..., -cfg.active_experts]
    shares = jax.nn.softmax(jnp.where(logits >= least[..., None], logits, -jnp.inf), axis=-1)
    experts = [jax.tree.map(lambda leaf, e=e: leaf[e], f.networks) for e in range(cfg.experts)]
    outputs = jnp.stack([network(expert, h, cfg) for expert in experts], axis=-2)
    return jnp.sum(shares[..., None] * outputs, axis=-2)


def projected(p: Any, h: jax.Array, cfg: BlockConfig) -> list[jax.Array]:
    """Queries, keys and values before they are gated and rotated."""
    products = []
    for name, norm in (("query", p.query_norm), ("key", p.key_norm), ("value", None)):
        y, bias = jnp.einsum("btd,dnh->btnh", h, getattr(p, name)), getattr(p.biases, name)
        y = y if bias is None else y + bias
        y = y if cfg.clip is None else jnp.clip(y, -cfg.clip, cfg.clip)
        shape = (*y.shape[:2], -1) if cfg.joint_qk_norm else y.shape
        products.append(y if norm is None else normed(norm, y.reshape(shape)).reshape(y.shape))
    return products


def equations(p: Any, x: jax.Array, values: Hyperparameters, cfg: BlockConfig) -> jax.Array:
    plain_input = cfg.placement in ("post", "reordered")
    h = x if plain_input else normed(p.attention_norm, x)

    def gated(y: jax.Array, where: str) -> jax.Array:
        if cfg.gate is None or p.gate is None or cfg.gate.where != where:
            return y
        f = {"sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu, "tanh": jnp.tanh}[cfg.gate.activation]
        products = p.gate[None, None] if cfg.gate.static else jnp.tensordot(h[..., : cfg.gate.dims], p.gate, axes=1)
        scores = values.gate[0] + (values.gate[1] - values.gate[0]) * f(products)
        return y * {"head": scores[..., None], "shared": scores[..., None, :], "channel": scores}[cfg.gate.per]

    def leaving(norm: Norm, end: Norm | None, x: jax.Array, y: jax.Array) -> jax.Array:
        if cfg.placement == "reordered":
            return x + normed(norm, y)
        return normed(norm, x + y) if plain_input else x + (y if end is None else normed(end, y))

    q, k, v = projected(p, h, cfg)
    q, k = rotated(gated(q, "query"), cfg), rotated(gated(k, "key"), cfg, p.phase)
    o = gated(mixed(p, q, k, gated(v, "value"), values, cfg), "output")
    a = jnp.einsum("btnh,nhd->btd", o, p.output)
    a = gated(a if p.biases.output is None else a + p.biases.output, "projection")
    if cfg.placement in ("parallel", "parallel_one_norm"):
        second = p.attention_norm if cfg.placement == "parallel_one_norm" else p.feedforward_norm
        return x + a + feedforward(p.feedforward, normed(second, x), cfg)
    x = leaving(p.attention_norm, p.attention_end, x, a)
    y = feedforward(p.feedforward, x if plain_input else normed(p.feedforward_norm, x), cfg)
    return leaving(p.feedforward_norm, p.feedforward_end, x, y)


@pytest.mark.parametrize("name", CONFIGS)
def test_output_and_every_gradient_are_those_of_the_equations(name: str) -> None:
    cfg, x, w = CONFIGS[name], numbers(1, 2, TOKENS, WIDTH), numbers(2, 2, TOKENS, WIDTH)
    p, values = weights(cfg)

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1, 2), has_aux=True)
    def ours(p: Block, x: jax.Array, values: Hyperparameters) -> Any:
        y, trace = apply(p, x, values, cfg)
        return jnp.sum(w * y), (y, trace)

    gradients, (y, trace) = ours(p, x, values)

    @jax.jit
    def theirs(w: jax.Array, *given: Any) -> Any:
        y, pull = jax.vjp(functools.partial(equations, cfg=cfg), *given)
        return y, pull(w)

    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), (w, p, x, values))
        expected, references = theirs(*wide)
    np.testing.assert_allclose(y, expected, atol=2e-5 * max(1, np.abs(expected).max()))
    np.testing.assert_array_equal(trace.residual, y)
    np.testing.assert_allclose(trace.value_norm, np.linalg.norm(trace.value, axis=-1), rtol=1e-5)
    assert (trace.gate is None) == (cfg.gate is None)
    for (path, gradient), reference in zip(
        jax.tree_util.tree_leaves_with_path(gradients), jax.tree.leaves(references), strict=True
    ):
        scale = max(1, np.abs(reference).max())
        np.testing.assert_allclose(gradient, reference, atol=5e-5 * scale, err_msg=jax.tree_util.keystr(path))


@pytest.mark.parametrize("name", ["query", "projection", "parallel"])
def test_output_and_hidden_units_are_what_a_layer_adds(name: str) -> None:
    """x + o + a·down, with the gates that stand after attention inside o; the hidden units of ReLU are not negative."""
    cfg, x = CONFIGS[name], numbers(1, 2, TOKENS, WIDTH)
    p, values = weights(cfg)
    y, trace = jax.jit(apply, static_argnames="cfg")(p, x, values, cfg)
    second: Any = p.feedforward
    of_hidden = jnp.einsum("btf,fd->btd", trace.hidden, second.down)
    bias = jnp.zeros(WIDTH) if second.down_bias is None else second.down_bias
    np.testing.assert_allclose(y - x - trace.output, of_hidden + bias[None, None], atol=1e-4)
    assert (trace.hidden.min() >= 0) == (cfg.activation == "relu")


LARGE = BlockConfig(
    width=64,
    heads=32,
    kv_heads=16,
    head_dim=32,
    hidden=256,
    gate=GateConfig("output", "channel", dims=16),
    position_bias=T5(),
    scalable_softmax=True,
    key_bias=True,
    key_bias_dims=24,
    value_bias=True,
    cross=True,
)
INTO_HEADS = dict.fromkeys(("query", "key", "value"), 1 / 8)
NETWORK = {"up": 1 / 8, "gate": 1 / 8, "down": 1 / 16 / 4}
# 1 / sqrt(fan-in), of what writes to the residual stream 1 / sqrt(2 · depth) = 1/4 of it, and 0.02 of key and value biases.
SCALES = INTO_HEADS | {"output": 1 / 32 / 4, "gate": 1 / 4, "key_bias": 0.02, "value_bias": 0.02, "position_bias.table": 1 / 8}
OF_NETWORK = {f"feedforward.{name}": scale for name, scale in NETWORK.items()}
OF_EXPERTS = {f"feedforward.networks.{name}": scale for name, scale in NETWORK.items()} | {"feedforward.router": 1 / 8}
OF_CROSS = {f"cross.{name}": scale for name, scale in (INTO_HEADS | {"output": 1 / 32 / 4}).items()}


@pytest.mark.parametrize(
    ("changes", "scales"),
    [({}, SCALES | OF_NETWORK | OF_CROSS), ({"experts": 8, "cross": False}, SCALES | OF_EXPERTS)],
    ids=["a network and cross-attention", "experts"],
)
def test_initial_weights_have_the_stated_scales(changes: dict[str, Any], scales: dict[str, float]) -> None:
    """Of a normal that is cut at ±3 the standard deviation is 0.9866; what is not drawn multiplies by 1 or adds 0."""
    cfg = replace(LARGE, **changes)
    p = jax.jit(init_block, static_argnames=("cfg", "depth"))(jax.random.key(0), cfg, depth=8)
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(p)
    }
    assert scales.keys() <= leaves.keys()
    for name, leaf in leaves.items():
        if name in scales:
            assert np.std(leaf) == pytest.approx(0.9866 * scales[name], rel=0.1), name
        else:
            np.testing.assert_array_equal(leaf, 1 if name.endswith("scale") else 0, err_msg=name)


def test_a_sink_logit_that_is_given_is_the_initial_one() -> None:
    np.testing.assert_array_equal(init_block(jax.random.key(0), PLAIN, sink_logit=0.5).sink_logit, 0.5)


HEAD = GateConfig(per="head")
test_impossible_shapes_and_gates_are_named = refused(
    (lambda: replace(PLAIN, kv_heads=3), "4 query heads cannot share 3"),
    (lambda: replace(PLAIN, kv_heads=0), "4 query heads cannot share 0"),
    (lambda: replace(PLAIN, head_dim=7), "head dimension 7 must be even"),
    (lambda: replace(PLAIN, key_bias_dims=2), "set key_bias too"),
    (lambda: replace(PLAIN, clip=0.0), "clip = 0.0"),
    (lambda: replace(PLAIN, polar=True, interleaved=True), "PoPE rotates single channels"),
    *(
        (lambda dims=dims: replace(PLAIN, key_bias=True, key_bias_dims=dims), f"key_bias_dims = {dims}: give .* the 4 of a key")
        for dims in (0, 9)
    ),
    (lambda: replace(PLAIN, key_bias=True, normalizer="relu"), "'relu' has no sink logit"),
    (lambda: replace(PLAIN, joint_qk_norm=True), "set qk_norm too"),
    (lambda: replace(PLAIN, key_bias=True, polar=True), "PoPE's keys have twice the channels"),
    (lambda: replace(PLAIN, value_bias=True), "set key_bias too"),
    (lambda: replace(PLAIN, experts=2, active_experts=3), "3 active experts of 2"),
    (lambda: replace(PLAIN, normalizer="softmaxx"), "unknown normalizer 'softmaxx': choose one of softmax, clipped"),
    (lambda: GateConfig("projection", "head"), "per = \"channel\", not 'head'"),
    (lambda: GateConfig(dims=0), "a gate of dims = 0 sees nothing"),
    (lambda: GateConfig(dims=3, static=True), "cannot see the first 3 channels"),
    (lambda: gate_weights(GateConfig(dims=9), 8, 4, 2, 3), "the first 9 channels of a layer input that has 8"),
)


def test_scores_are_float32_and_gating_keeps_the_type_of_what_is_gated() -> None:
    x, scores = numbers(0, 2, 5, 6).astype(jnp.bfloat16), numbers(1, 2, 5, 3)
    assert gate_scores(x, numbers(2, 6, 3), HEAD, jnp.asarray([0.0, 1.0])).dtype == jnp.float32
    assert apply_gate(numbers(3, 2, 5, 3, 4).astype(jnp.bfloat16), scores, "head").dtype == jnp.bfloat16


def test_a_router_has_float32_logits_whatever_the_type_of_its_input() -> None:
    """bfloat16 could not tell the two experts apart; the second one multiplies by 1, the first by 0."""
    up, down = jnp.ones((2, 4, 1)), jnp.asarray([0.0, 1.0])[:, None, None] * jnp.ones((1, 1, 4))
    router = jnp.ones((4, 2)).at[:, 1].add(1e-3)
    y = mixture(Experts(router, None, FeedForward(up, None, down)), jnp.ones((1, 3, 4), jnp.bfloat16), "relu", 1)
    np.testing.assert_array_equal(y, jnp.full((1, 3, 4), 4, jnp.bfloat16))


@pytest.mark.parametrize(
    ("cfg", "shape"),
    [
        (HEAD, (8, 4)),
        (GateConfig("value", "channel"), (8, 2, 3)),
        (GateConfig("query", "shared", dims=5), (5, 3)),
        (GateConfig("projection", "channel"), (8, 8)),
        (GateConfig("key", "head", static=True), (2,)),
    ],
)
def test_weights_have_a_column_a_gate_and_may_start_at_zero(cfg: GateConfig, shape: tuple[int, ...]) -> None:
    drawn = gate_weights(cfg, 8, 4, 2, 3)
    assert isinstance(drawn, Matrix)
    assert drawn.shape == shape
    assert shape[-len(gates(cfg, 8, 4, 2, 3)) :] == gates(cfg, 8, 4, 2, 3)
    np.testing.assert_array_equal(gate_weights(replace(cfg, zero=True), 8, 4, 2, 3), np.zeros(shape))
