"""The workload's decoder as leadline trains it: several arms in one program, which share a structure."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from leadline.experiments.bench.workloads import llama
from leadline.experiments.bench.workloads.llama import Size
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.sample import Sample
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import ensemble_mesh, over_arms, stack
from leadline.experiments.training.step import TrainState, Values, init_state, started, train_step, values_of
from leadline.model.block import Block
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.feedforward import FeedForward
from leadline.model.mesh import make_mesh
from leadline.model.norm import Norm

Inputs = tuple[Sample, Values, Any]
Step = Callable[[TrainState, Inputs, None], tuple[TrainState, dict[str, Array]]]


class Arm(NamedTuple):
    """A model of a sweep. Arms differ in values only, so that one program serves all of them."""

    model: ModelConfig
    seed: int = 0
    rate: float = llama.LEARNING_RATE


def arms_together(size: Size, arms: Sequence[Arm], weights: Decoder | None = None) -> tuple[Mesh, Step, TrainState, Inputs]:
    """The mesh, the step, the first states and the inputs of all arms, with an arm axis.

    `weights` are those of every arm at the start; None draws them from the seeds.
    """
    jax.config.update("jax_num_cpu_devices", cores())
    model, cfg = decoder_config(arms[0].model, size.vocabulary, size.length), training(size)
    mesh = ensemble_mesh(len(arms), size.batch, size.width)

    def begin(start: Any, values: Values, shared: None) -> TrainState:  # noqa: ARG001
        return init_state(start, values, model, cfg) if weights is None else started(start, values, cfg)

    with jax.set_mesh(mesh):
        inputs = stack([arm_inputs(size, arm) for arm in arms], mesh)
        starts = stack([np.uint32(arm.seed) if weights is None else weights for arm in arms], mesh)
        return mesh, step_of(size, model), over_arms(begin)(starts, inputs[1], None), inputs


def trained_together(size: Size, arms: Sequence[Arm], weights: Decoder | None = None) -> tuple[Callable[[], float], float]:
    """Takes a step of all arms in one program and returns the sum of their losses; and the seconds to compile it."""
    mesh, step, state, inputs = arms_together(size, arms, weights)
    with jax.set_mesh(mesh):
        began = time.perf_counter()
        program = over_arms(step, donate=True).lower(state, inputs, None).compile()  # pyright: ignore[reportFunctionMemberAccess]
        seconds = time.perf_counter() - began

    def work() -> float:
        nonlocal state
        with jax.set_mesh(mesh):
            state, metrics = program(state, inputs, None)
            return float(np.asarray(metrics["loss"])[: len(arms)].sum())

    return work, seconds


def arms_apart(size: Size, arms: Sequence[Arm]) -> tuple[Mesh, Step, list[TrainState], list[Inputs]]:
    """A mesh of one device, the step, and the first state and the inputs on the host of each arm by itself."""
    jax.config.update("jax_num_cpu_devices", 1)
    model, mesh = decoder_config(arms[0].model, size.vocabulary, size.length), make_mesh()
    inputs = [arm_inputs(size, arm) for arm in arms]
    begin = jax.jit(partial(init_state, model=model, cfg=training(size)))
    with jax.set_mesh(mesh):
        states = [begin(np.uint32(arm.seed), values) for arm, (_, values, _) in zip(arms, inputs, strict=True)]
    return mesh, step_of(size, model), states, inputs


def step_of(size: Size, model: DecoderConfig) -> Step:
    """A training step of one model, in the form that `over_arms` takes."""
    cfg = training(size)

    def step(state: TrainState, inputs: Inputs, shared: None) -> tuple[TrainState, dict[str, Array]]:  # noqa: ARG001
        return train_step(state, *inputs, model, cfg)

    return step


def arm_inputs(size: Size, arm: Arm) -> Inputs:
    """Ids, values and learning rate of an arm, on the host."""
    ids: Any = llama.tokens(size).astype(np.int32)
    return Sample(ids), values_of(arm.model, training(size), tables(arm.model, size.length)), np.float32(arm.rate)


def training(size: Size) -> TrainConfig:
    """AdamW with the peers' settings."""
    adam = {"learning_rate": llama.LEARNING_RATE, "epsilon": llama.ADAM_EPSILON, "weight_decay": llama.WEIGHT_DECAY}
    adam |= {"beta1": llama.BETAS[0], "beta2": llama.BETAS[1], "clip": llama.CLIP}
    return TrainConfig.model_validate({"steps": 1, "batch": size.batch, **adam})


def loaded(size: Size) -> Decoder:
    """The weights of `workloads.llama.weights` as a decoder of leadline, on the host."""
    arrays, (L, D, F, N, H) = llama.weights(size), (size.layers, size.width, size.hidden, size.heads, size.head_dim)

    def layers(name: str, *shape: int) -> Any:
        return np.stack([arrays[f"model.layers.{i}.{name}.weight"].T.reshape(shape) for i in range(L)])

    def norm(name: str) -> Norm:
        return Norm(scale=layers(f"{name}_layernorm", D), bias=None)

    infinite: Any = np.full((L, N), -np.inf, np.float32)
    absent = ("gate", "key_bias", "value_bias", "length_scale", "query_norm", "key_norm", "position_bias", "phase")
    blocks = Block(
        attention_norm=norm("input"),
        query=layers("self_attn.q_proj", D, N, H),
        key=layers("self_attn.k_proj", D, N, H),
        value=layers("self_attn.v_proj", D, N, H),
        sink_logit=infinite,
        output=layers("self_attn.o_proj", N, H, D),
        attention_end=None,
        feedforward_norm=norm("post_attention"),
        feedforward=FeedForward(layers("mlp.up_proj", D, F), layers("mlp.gate_proj", D, F), layers("mlp.down_proj", F, D)),
        feedforward_end=None,
        **dict.fromkeys(absent),
    )
    scale: Any = arrays["model.norm.weight"]
    embedding: Any = arrays["model.embed_tokens.weight"]
    return Decoder(embedding, positions=None, blocks=blocks, final_norm=Norm(scale=scale, bias=None), unembedding=None)
