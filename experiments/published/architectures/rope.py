"""RoPE as a config.json describes it: `rope_theta` and `rope_scaling`, or `rope_parameters` with both."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import DynamicNtk, Llama3, LongRope, NoScaling, PositionInterpolation, Scaling, Yarn
from leadline.experiments.published.architectures.base import Keys

# Keys of a scaling, by its type, besides the factor and the original length.
KNOWN = {
    "yarn": {"beta_fast", "beta_slow", "attention_factor", "truncate"},
    "llama3": {"low_freq_factor", "high_freq_factor"},
    "longrope": {"short_factor", "long_factor", "attention_factor"},
}
COMMON = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings"}


def rope(
    keys: Keys,
    *,
    base_key: str = "rope_theta",
    base: float | None = None,
    part_key: str = "partial_rotary_factor",
    part: float | None = 1.0,
) -> Rope:
    """The position encoding of a config.json.

    Args:
        keys: of the file.
        base_key: the key of the base in files without `rope_parameters`.
        base: the base of files that do not state it; None refuses them.
        part_key: the key of the share of channels that rotate, in files without `rope_parameters`.
        part: the share in files that do not state it; None refuses them.

    Raises:
        UserError: for a base that is missing, and a scaling that is not known.
    """
    parameters = keys.table("rope_parameters")
    default = None if parameters else base
    stated = _stated(keys, base_key, "rope_theta", default), _stated(keys, part_key, "partial_rotary_factor", part)
    return rope_of(keys, stated[0], parameters or keys.table("rope_scaling"), stated[1])


def _stated(keys: Keys, key: str, inner_key: str, default: float | None) -> float:
    """The number of a key, or of one of `rope_parameters` where it is absent."""
    inner = keys.inside("rope_parameters")
    if keys.get(key) is None and inner.get(inner_key) is not None:
        return inner.number(inner_key)
    return keys.number(key, default=default)


def rope_of(keys: Keys, base: float, scaling: Mapping[str, Any], part: float = 1.0) -> Rope:
    """RoPE of a base, with a scaling as `rope_scaling` has it, of this part of the channels."""
    return Rope(base=base, partial=part, scaling=_scaling(keys, scaling))


def _scaling(keys: Keys, stated: Mapping[str, Any]) -> Scaling:
    scaling = keys.within("rope_scaling", stated)
    kind = str(scaling.get("rope_type", scaling.get("type", "default")))
    kind = "longrope" if kind == "su" else kind  # its name in the first files of Phi-3
    if unknown := sorted(set(stated) - COMMON - KNOWN.get(kind, set())):
        raise keys.refuse(f"rope_scaling has {', '.join(unknown)} in type {kind!r}, which leadline does not know")
    longest, original = _lengths(keys, scaling)
    stretch = longest / original if longest and original else None
    values = {key: value for key, value in stated.items() if key in KNOWN.get(kind, set()) and value is not None}
    match kind:
        case "default":
            return NoScaling()
        case "linear":
            return PositionInterpolation(factor=scaling.number("factor"))
        case "dynamic":
            return DynamicNtk(factor=scaling.number("factor"), original_length=original)
        case "yarn":
            return Yarn(factor=scaling.number("factor", default=stretch), original_length=original, **values)
        case "llama3":
            return Llama3(
                factor=scaling.number("factor"),
                original_length=original,
                low_frequency_factor=scaling.number("low_freq_factor"),
                high_frequency_factor=scaling.number("high_freq_factor"),
            )
        case "longrope":
            return LongRope(
                short=tuple(scaling.required("short_factor")),
                long=tuple(scaling.required("long_factor")),
                factor=scaling.number("factor", default=stretch),
                original_length=original,
                attention_factor=values.get("attention_factor"),
            )
    raise keys.refuse(f"rope_scaling of type {kind!r}; leadline has default, linear, dynamic, yarn, llama3 and longrope")


def _lengths(keys: Keys, scaling: Keys) -> tuple[int | None, int | None]:
    """The longest text, and that before the context was extended; None where the file does not say it."""
    longest, name = keys.count_or_none("max_position_embeddings"), "original_max_position_embeddings"
    return longest, scaling.count_or_none(name) or keys.count_or_none(name) or longest
