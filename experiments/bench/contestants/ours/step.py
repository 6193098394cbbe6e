"""The training step of `leadline run`, for one model."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.llama import (
    ADAM_EPSILON,
    BETAS,
    CLIP,
    LEARNING_RATE,
    WEIGHT_DECAY,
    Size,
    config,
    structure,
    tokens,
    weights,
)
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.sample import Sample
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import compiled, ensemble_mesh, over_arms, stack
from leadline.experiments.training.step import TrainState, Values, started, train_step
from leadline.model.block import Block
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.feedforward import FeedForward
from leadline.model.norm import Norm

Inputs = tuple[Sample, Values, Array]
Step = Callable[[TrainState, Inputs, None], tuple[TrainState, dict[str, Array]]]


def prepare(size: Mapping[str, int], compute: str, devices: int | None = None) -> Prepared:
    """One model on all devices. The value is the loss of the third step, which depends on the optimiser."""
    jax.config.update("jax_num_cpu_devices", cores() if devices is None else devices)
    mesh, step, state, inputs = prepared_step(Size(**size), compute)
    with jax.set_mesh(mesh):
        began = time.perf_counter()
        program = compiled("train", over_arms(step, donate=True), [], state, inputs, None)
        seconds = time.perf_counter() - began

    def work() -> float:
        nonlocal state
        with jax.set_mesh(mesh):
            state, metrics = program(state, inputs, None)
            return float(metrics["loss"][0])

    losses = [work() for _ in range(3)]
    return Prepared(work, {"value": losses[-1], "compile_seconds": seconds})


def prepared_step(size: Size, compute: str) -> tuple[Mesh, Step, TrainState, Inputs]:
    """The mesh, the step, the first state, and the ids, values and learning rate of one model, with an arm axis."""
    model, cfg = structure(size, compute), training(size)
    mesh = ensemble_mesh(1, size.batch, size.width)

    def begin(params: Decoder, values: Values, shared: None) -> TrainState:  # noqa: ARG001
        return started(params, values, cfg)

    with jax.set_mesh(mesh):
        ids: Any = tokens(size).astype(np.int32)
        inputs = (stack([Sample(ids)], mesh), stack([plain_values(size)], mesh), stack([np.float32(LEARNING_RATE)], mesh))
        return mesh, step_of(size, model), over_arms(begin)(stack([loaded(size)], mesh), inputs[1], None), inputs


def step_of(size: Size, model: DecoderConfig) -> Step:
    """A training step of one model, in the form that `over_arms` takes."""
    cfg = training(size)

    def step(state: TrainState, inputs: Inputs, shared: None) -> tuple[TrainState, dict[str, Array]]:  # noqa: ARG001
        return train_step(state, *inputs, model, cfg)

    return step


def training(size: Size) -> TrainConfig:
    """AdamW with the peers' settings."""
    adam = {"beta1": BETAS[0], "beta2": BETAS[1], "epsilon": ADAM_EPSILON, "weight_decay": WEIGHT_DECAY, "clip": CLIP}
    return TrainConfig.model_validate({"steps": 1, "batch": size.batch, "learning_rate": LEARNING_RATE, **adam})


def plain_values(size: Size) -> Values:
    """Plain RoPE and the plain softmax."""
    model = config(size, "float32")
    return Values(
        tables=tables(model, size.length),
        sink_logit=jnp.float32(-jnp.inf),
        text=jnp.int32(0),
        logit_rate=jnp.float32(0),
        weight_decay=jnp.float32(WEIGHT_DECAY),
        clip=jnp.float32(CLIP),
    )


def loaded(size: Size) -> Decoder:
    """The weights of `workloads.llama.weights` as a decoder of leadline, on the host."""
    arrays, (L, D, N, H) = weights(size), (size.layers, size.width, size.heads, size.head_dim)

    def layers(name: str, *shape: int) -> Any:
        return np.stack([arrays[f"model.layers.{i}.{name}.weight"].T.reshape(shape) for i in range(L)])

    def norm(name: str) -> Norm:
        return Norm(scale=layers(f"{name}_layernorm", D), bias=None)

    infinite: Any = np.full((L, N), -np.inf, np.float32)
    absent = dict.fromkeys(
        ("gate", "key_bias", "value_bias", "length_scale", "query_norm", "key_norm", "position_bias", "phase")
    )
    blocks = Block(
        attention_norm=norm("input"),
        query=layers("self_attn.q_proj", D, N, H),
        key=layers("self_attn.k_proj", D, N, H),
        value=layers("self_attn.v_proj", D, N, H),
        sink_logit=infinite,
        output=layers("self_attn.o_proj", N, H, D),
        attention_end=None,
        feedforward_norm=norm("post_attention"),
        feedforward=FeedForward(*(layers(f"mlp.{name}_proj", *shape) for name, shape in _feedforward(size).items())),
        feedforward_end=None,
        **absent,
    )
    scale: Any = arrays["model.norm.weight"]
    embedding: Any = arrays["model.embed_tokens.weight"]
    return Decoder(embedding, positions=None, blocks=blocks, final_norm=Norm(scale=scale, bias=None), unembedding=None)


def _feedforward(size: Size) -> dict[str, tuple[int, int]]:
    wide = (size.width, size.hidden)
    return {"up": wide, "gate": wide, "down": (size.hidden, size.width)}
