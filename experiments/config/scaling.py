"""The context extensions of RoPE (model/positions says what they compute)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from leadline.experiments.config.base import Factor, Frozen, Positive

# What the table of a dynamic extension follows: the length of the whole text, of the text up to each query (which turns every
# key anew), or the position of each token, query or key, which is what a cache of turned keys comes to.
TablePer = Literal["sequence", "query", "token"]


# Context extensions. `original_length` is the training length where it is absent.


class NoScaling(Frozen):
    kind: Literal["none"] = "none"


class PositionInterpolation(Frozen):
    kind: Literal["pi"] = "pi"
    factor: Factor


class NtkAware(Frozen):
    kind: Literal["ntk"] = "ntk"
    factor: Factor


class DynamicNtk(Frozen):
    kind: Literal["dynamic_ntk"] = "dynamic_ntk"
    factor: Factor = 1.0  # 1 extends by length / original_length; more extends by more than the text needs
    original_length: Positive | None = None
    per: TablePer = "sequence"


class Parts(Frozen):
    """The ramp of NTK-by-parts and of YaRN: linear in the number of turns (the paper) or in the pair (its code)."""

    original_length: Positive | None = None
    beta_fast: float = Field(default=32.0, gt=0)
    beta_slow: float = Field(default=1.0, gt=0)
    ramp: Literal["pairs", "rotations"] = "pairs"
    truncate: bool = True

    @model_validator(mode="after")
    def _ramp_has_two_ends(self) -> "Parts":
        if self.beta_fast <= self.beta_slow:
            raise ValueError(f"beta_fast {self.beta_fast} must be above beta_slow {self.beta_slow}")
        return self


class NtkByParts(Parts):
    kind: Literal["ntk_by_parts"] = "ntk_by_parts"
    factor: Factor


class Yarn(Parts):
    """`attention_factor` is the final multiplier of cos and sin, `attention_multiplier` one on top of 0.1 ln(factor) + 1."""

    kind: Literal["yarn"] = "yarn"
    factor: Factor
    attention_factor: float | None = Field(default=None, gt=0)
    attention_multiplier: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _one_of_two(self) -> "Yarn":
        if self.attention_factor is not None and self.attention_multiplier is not None:
            raise ValueError("attention_factor is final and attention_multiplier is on top of 0.1 ln(factor) + 1: give one")
        return self


class DynamicYarn(Parts):
    kind: Literal["dynamic_yarn"] = "dynamic_yarn"
    per: TablePer = "sequence"


class Llama3(Frozen):
    kind: Literal["llama3"] = "llama3"
    factor: Factor
    original_length: Positive | None = None
    low_frequency_factor: float = Field(default=1.0, gt=0)
    high_frequency_factor: float = Field(default=4.0, gt=0)

    @model_validator(mode="after")
    def _band_has_two_ends(self) -> "Llama3":
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ValueError(
                f"high_frequency_factor {self.high_frequency_factor} must be above low_frequency_factor "
                f"{self.low_frequency_factor}"
            )
        return self


class LongRope(Frozen):
    """One factor a pair: `short` up to `original_length`, `long` in longer texts. `factor` sets the attention factor."""

    kind: Literal["longrope"] = "longrope"
    short: tuple[Annotated[float, Field(gt=0)], ...]
    long: tuple[Annotated[float, Field(gt=0)], ...]
    factor: Factor
    original_length: Positive | None = None
    attention_factor: float | None = Field(default=None, gt=0)
    per: TablePer = "sequence"


Scaling = Annotated[
    NoScaling | PositionInterpolation | NtkAware | DynamicNtk | NtkByParts | Yarn | DynamicYarn | Llama3 | LongRope,
    Field(discriminator="kind"),
]
# How a study extends the context of a trained model, by the evaluation length over the training length. The dynamic ones of
# whole sequences are not here: at one length they are `ntk` and `yarn`.
Extension = Literal[
    "pi",
    "ntk",
    "ntk_by_parts",
    "yarn",
    "yarn_rotations",
    "llama3",
    "dynamic_ntk_query",
    "dynamic_ntk_token",
    "dynamic_yarn_query",
    "dynamic_yarn_token",
]
NEEDS_BASE_ABOVE_1 = (NtkByParts, Yarn, DynamicYarn)
NEEDS_TWO_PAIRS = (NtkAware, DynamicNtk)


def check_scaling(scaling: Scaling, base: float, head_dim: int) -> None:
    """ValueError where frequencies of this base and head dimension cannot be scaled in that way."""
    if isinstance(scaling, NEEDS_BASE_ABOVE_1) and base <= 1:
        raise ValueError(f"YaRN and NTK-by-parts need a RoPE base above 1, of which they take the logarithm, not {base}")
    if isinstance(scaling, NEEDS_TWO_PAIRS) and head_dim < 4:
        raise ValueError(f"NTK-aware scaling needs a head dimension of 4 or more, not the head dimension {head_dim}")
    if isinstance(scaling, LongRope):
        for name, factors in (("short", scaling.short), ("long", scaling.long)):
            if len(factors) != head_dim // 2:
                raise ValueError(f"{name} has {len(factors)} factors: LongRoPE needs one a pair, {head_dim // 2} in all")


def extension_of(name: Extension, factor: float) -> Scaling:
    """The scaling that an extension by `factor` is; every parameter else at its default."""
    match name:
        case "pi":
            return PositionInterpolation(factor=factor)
        case "ntk":
            return NtkAware(factor=factor)
        case "ntk_by_parts":
            return NtkByParts(factor=factor)
        case "yarn":
            return Yarn(factor=factor)
        case "yarn_rotations":
            return Yarn(factor=factor, ramp="rotations")
        case "llama3":
            return Llama3(factor=factor)
        case "dynamic_ntk_query":
            return DynamicNtk(per="query")
        case "dynamic_ntk_token":
            return DynamicNtk(per="token")
        case "dynamic_yarn_query":
            return DynamicYarn(per="query")
        case "dynamic_yarn_token":
            return DynamicYarn(per="token")
