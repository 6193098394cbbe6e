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
    parameters = keys.get("rope_parameters") or {}
    scaling = parameters or keys.get("rope_scaling") or {}
    default = None if parameters else base
    base = float(keys.get(base_key) or parameters.get("rope_theta") or default or keys.required(base_key))
    part = float(keys.get(part_key) or parameters.get("partial_rotary_factor") or part or keys.required(part_key))
    return rope_of(keys, base, scaling, part)


def rope_of(keys: Keys, base: float, scaling: Mapping[str, Any], part: float = 1.0) -> Rope:
    """RoPE of a base, with a scaling as `rope_scaling` has it, of this part of the channels."""
    return Rope(base=base, partial=part, scaling=_scaling(keys, scaling))


def _scaling(keys: Keys, scaling: Mapping[str, Any]) -> Scaling:
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    kind = "longrope" if kind == "su" else kind  # its name in the first files of Phi-3
    if unknown := sorted(set(scaling) - COMMON - KNOWN.get(kind, set())):
        raise keys.refuse(f"rope_scaling has {', '.join(unknown)} in type {kind!r}, which leadline does not know")
    longest = keys.get("max_position_embeddings")
    original = scaling.get("original_max_position_embeddings") or keys.get("original_max_position_embeddings") or longest
    values = {key: value for key, value in scaling.items() if key in KNOWN.get(kind, set()) and value is not None}
    match kind:
        case "default":
            return NoScaling()
        case "linear":
            return PositionInterpolation(factor=scaling["factor"])
        case "dynamic":
            return DynamicNtk(factor=scaling["factor"], original_length=original)
        case "yarn":
            return Yarn(factor=scaling.get("factor") or longest / original, original_length=original, **values)
        case "llama3":
            band = {"low_frequency_factor": values["low_freq_factor"], "high_frequency_factor": values["high_freq_factor"]}
            return Llama3(factor=scaling["factor"], original_length=original, **band)
        case "longrope":
            return LongRope(
                short=tuple(values["short_factor"]),
                long=tuple(values["long_factor"]),
                factor=scaling.get("factor") or longest / original,
                original_length=original,
                attention_factor=values.get("attention_factor"),
            )
    raise keys.refuse(f"rope_scaling of type {kind!r}; leadline has default, linear, dynamic, yarn, llama3 and longrope")
