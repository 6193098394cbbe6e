"""Parameters, key-value caches, attention scores, FLOPs and RoPE bases of released models: a job a model."""

from typing import Literal

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Released, Shape
from leadline.experiments.config.position import Rope
from leadline.experiments.measure import bound, memory, shapes
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.records.measurement import Point, scalars
from leadline.model.positions.frequencies import inverse_frequencies

KIB, MIB, GIB = 2**10, 2**20, 2**30


class ReleasedSettings(Frozen):
    """Settings of one model."""

    kind: Literal["released"] = "released"
    bits: tuple[int, ...]
    lengths: tuple[int, ...]
    shape: Shape


def jobs(exact: Released) -> list[Job]:
    """A job for each model."""
    planned = []
    for name, model in exact.models.items():
        shape = Shape.model_validate(model.model_dump(exclude={"label"}))
        settings = ReleasedSettings(bits=exact.bits, lengths=exact.lengths, shape=shape)
        planned.append(Job(name, model.label, settings, independent(_counted, settings)))
    return planned


def _counted(settings: ReleasedSettings) -> Computed:
    shape = settings.shape
    parts = shapes.parameters(shape)
    count = sum(parts.values())
    share = (parts["embedding"] + parts["unembedding"]) / count
    totals = {"parameter_count": count, "active_parameters": shapes.active_parameters(shape), "embedding_share": share}
    point = scalars(totals | {"context": shape.context}) | _base(shape)
    for part, number in parts.items():
        point |= scalars({"parameter_count": number}, part=part)
    for bits in settings.bits:
        point |= scalars({"embedding_memory": parts["embedding"] * bits / 8 / MIB}, bits=bits)
    return Computed(point if shape.encoder else point | _cache(settings) | _by_length(settings), parameters=count)


def _cache(settings: ReleasedSettings) -> Point:
    shape = settings.shape
    point = scalars({"cache_share": shapes.cache_share(shape)})
    for bits in settings.bits:
        token, text = (
            float(shapes.layer_caches(shape.model, tokens, bits, shape.latent).sum()) for tokens in (1, shape.context)
        )
        point |= scalars({"cache_per_token": token / KIB, "cache_memory": text / GIB}, bits=bits)
    return point


def _by_length(settings: ReleasedSettings) -> Point:
    """Cache, scores and FLOPs at each length up to the context."""
    sized = memory.of_shape("", "", settings.shape)
    point: Point = {}
    for length in settings.lengths:
        if length > sized.context:
            continue
        flops = memory.prefill_flops(sized, length, 1)
        numbers = {
            "score_memory": memory.score_bytes(sized.model, length, 1) / GIB,
            "prefill_flops": flops,
            "token_flops": memory.token_flops(sized, length, 1),
            "attention_share": 1 - 2 * sized.products * length / flops,
        }
        point |= scalars(numbers, length=length)
        for bits in settings.bits:
            point |= scalars(
                {"text_cache": memory.cache_by_layer(sized, length, 1, bits).sum() / GIB}, bits=bits, length=length
            )
    return point


def _base(shape: Shape) -> Point:
    """The distances below `Shape.base_context` at which B_m < 0 (Men et al. 2024); nothing without RoPE."""
    position = shape.model.position
    if not isinstance(position, Rope):
        return {}
    result = bound.negative_distances(inverse_frequencies(shape.rotated, position.base), shape.base_context)
    return scalars({"printed_base": position.base} | result.numbers())
