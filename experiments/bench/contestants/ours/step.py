"""The training step of `leadline run`, for one model, its compilation, and its batch."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from leadline.experiments.bench.contestants.compilations import Compilations
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.bench.workloads.llama import (
    ADAM_EPSILON,
    BETAS,
    CLIP,
    LEARNING_RATE,
    WEIGHT_DECAY,
    Size,
    config,
    stepping,
    structure,
    tokens,
    weights,
)
from leadline.experiments.config.data import TextData
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.sample import Sample
from leadline.experiments.data.source import open_source
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import compiled, ensemble_mesh, over_arms, stack
from leadline.experiments.training.step import TrainState, Values, started, train_step, values_of
from leadline.model.block import Block
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.feedforward import FeedForward
from leadline.model.norm import Norm

Inputs = tuple[Sample, Values, Array]
Step = Callable[[TrainState, Inputs, None], tuple[TrainState, dict[str, Array]]]


def prepare(size: Mapping[str, int], compute: str) -> Prepared:
    """One model on all devices."""
    jax.config.update("jax_num_cpu_devices", cores())
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

    return stepping(work, compile_seconds=seconds)


def compilation(size: Mapping[str, int], on_disk: bool) -> Prepared:
    """Compiles the step without programs in the process. With `on_disk` they are loaded from the persistent cache."""
    jax.config.update("jax_num_cpu_devices", cores())
    mesh, step, state, inputs = prepared_step(Size(**size), "float32")
    if on_disk:
        jax.config.update("jax_compilation_cache_dir", str(scratch() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    counted = Compilations()

    def work() -> dict[str, Any]:
        counted.begin()
        with jax.set_mesh(mesh):
            over_arms(step, donate=True).lower(state, inputs, None).compile()  # pyright: ignore[reportFunctionMemberAccess]
        return counted.facts()

    if on_disk:
        work()  # fills the cache
    return Prepared(work, often=False, more=dict)


def batch(size: Mapping[str, int]) -> Prepared:
    """The batch of a step as `leadline.experiments.training.loop` makes it, of the standard library's bytes."""
    jax.config.update("jax_num_cpu_devices", cores())
    shape = Size(**size)
    source = open_source(TextData(kind="text", corpus="stdlib", length=shape.length), scratch())
    mesh, step = ensemble_mesh(1, shape.batch, shape.width), 0
    rates = np.full((1, 1), LEARNING_RATE, np.float32)

    def work() -> None:
        nonlocal step
        with jax.set_mesh(mesh):
            inputs = stack([source.inputs(0, step, shape.batch)], mesh)
            jax.block_until_ready((inputs, stack(list(rates[:, 0]), mesh)))
        step += 1

    return Prepared(work)


def prepared_step(size: Size, compute: str) -> tuple[Mesh, Step, TrainState, Inputs]:
    """The mesh, the step, the first state, and the ids, values and learning rate of one model, with an arm axis."""
    model, cfg = structure(size, compute), training(size)
    mesh = ensemble_mesh(1, size.batch, size.width)

    def begin(params: Decoder, values: Values, shared: None) -> TrainState:  # noqa: ARG001
        return started(params, values, cfg)

    with jax.set_mesh(mesh):
        ids: Any = tokens(size).astype(np.int32)
        model_config = config(size, "float32")
        values = values_of(model_config, cfg, tables(model_config, size.length))
        inputs = (stack([Sample(ids)], mesh), stack([values], mesh), stack([np.float32(LEARNING_RATE)], mesh))
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


def loaded(size: Size) -> Decoder:
    """The weights of `workloads.llama.weights` as a decoder of leadline, on the host."""
    arrays, (L, D, F, N, H) = weights(size), (size.layers, size.width, size.hidden, size.heads, size.head_dim)

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
        feedforward=FeedForward(layers("mlp.up_proj", D, F), layers("mlp.gate_proj", D, F), layers("mlp.down_proj", F, D)),
        feedforward_end=None,
        **absent,
    )
    scale: Any = arrays["model.norm.weight"]
    embedding: Any = arrays["model.embed_tokens.weight"]
    return Decoder(embedding, positions=None, blocks=blocks, final_norm=Norm(scale=scale, bias=None), unembedding=None)
