"""Blocks with a gate at every place against torch; output and all gradients. Qwen3-Next is in test_block.py."""

from dataclasses import replace
from typing import get_args

import jax.numpy as jnp
import pytest
import torch

from leadline.model.attention.gate import GateConfig, Per, Where
from leadline.model.block import BlockConfig
from tests.oracles.half_block import CONFIG, HEADS, SIZE, WIDTH, assert_halves_equal, theirs, unoptimised  # noqa: F401

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]


def gated(*gates: GateConfig) -> list[BlockConfig]:
    return [replace(CONFIG, gate=gate) for gate in gates]


@pytest.mark.parametrize("where", get_args(Where))
def test_a_sigmoid_gate_at_every_place(where):
    shares = ("channel",) if where == "projection" else get_args(Per)
    assert_halves_equal(gated(*(GateConfig(where, per) for per in shares)))


@pytest.mark.parametrize("limits", [(0.5, 1.0), (-0.25, 2.0)])
def test_limits(limits):
    """The restricted gate of Qiu et al. 2025, and any other."""
    assert_halves_equal(gated(*(GateConfig("output", per) for per in get_args(Per))), limits=jnp.asarray(limits))


def test_what_a_gate_sees_and_its_activation():
    assert_halves_equal(
        gated(
            GateConfig("output", "channel", "silu"),
            GateConfig("value", "head", "tanh"),
            GateConfig("output", "head", dims=3),
            GateConfig("key", "channel", static=True),
            GateConfig("query", "shared", "silu", static=True),
        )
    )


def test_twice_a_sigmoid_of_zero_starts_as_no_gate():
    """The output is that of torch without a gate; the gate's own gradient is that of 2σ, not 0."""

    def against(named, cfg):
        y = theirs(named, cfg)
        torch.testing.assert_close(y, theirs(named, replace(cfg, gate=None)))
        return y

    zeros, limits = jnp.zeros((WIDTH, HEADS, SIZE)), jnp.asarray([0.0, 2.0])
    assert_halves_equal(gated(GateConfig("output", "channel", zero=True)), against=against, gate=zeros, limits=limits)
