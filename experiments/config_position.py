"""Position encodings and the context extensions of RoPE, as a TOML file says them (model/positions says what they compute)."""

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from experiments.config_base import Factor, Frozen, Part, Positive
from model.positions.xpos import xpos_longest

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
    "none",
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


# Position encodings.


class Temperature(Frozen):
    """Queries of layers without positions are multiplied by 1 + strength · ln(1 + floor((i + 1) / span)) (Llama 4)."""

    strength: float = Field(default=0.1, ge=0)
    span: Positive = 8192


class Rope(Frozen):
    """`partial` squeezes the whole spectrum into a part of the pairs; `kept` (p-RoPE) leaves that part of the spectrum and no
    frequency below. `nope_every` takes the positions from every n-th layer (iRoPE), `drop_after` from all layers after that
    part of the training (DroPE). `sections` give each coordinate of the position its pairs (M-RoPE); the tokens stand on a
    grid with the sizes `grid` of all axes but the first, and [] is a text, where all coordinates are equal."""

    kind: Literal["rope"] = "rope"
    base: float = Field(gt=0)  # no default: a base that is missing must be noticed
    scaling: Scaling = NoScaling()
    interleaved: bool = False
    partial: Part = 1.0
    kept: Part = 1.0
    nope_every: int | None = Field(default=None, ge=1)
    temperature: Temperature | None = None
    drop_after: Part | None = None
    sections: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=2)
    interleaved_sections: bool = False
    grid: tuple[Positive, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> "Rope":
        if self.partial < 1 and self.kept < 1:
            raise ValueError("partial and kept both leave pairs without rotation, in two ways: give one of them")
        if self.sections is not None and (self.partial < 1 or self.kept < 1):
            raise ValueError("sections divide all pairs: leave partial and kept at 1")
        if self.interleaved_sections and self.sections is None:
            raise ValueError("interleaved_sections says how pairs are dealt to sections: give sections = [16, 24, 24], say")
        if self.grid and len(self.grid) + 1 != len(self.sections or ()):
            raise ValueError(f"a grid of {len(self.grid) + 1} axes needs as many sections, not {len(self.sections or ())}")
        if self.temperature is not None and self.nope_every is None:
            raise ValueError("the temperature is that of layers without positions: give nope_every = 4, say")
        return self


class Axial(Frozen):
    """2-D RoPE and its likes: the channels divided among the axes of a grid, each with its own whole spectrum."""

    kind: Literal["axial"] = "axial"
    base: float = Field(default=100.0, gt=0)
    grid: tuple[Positive, ...] = Field(min_length=1)  # sizes of all axes but the first
    interleaved: bool = False


class XPos(Frozen):
    kind: Literal["xpos"] = "xpos"
    base: float = Field(gt=0)
    scaling: Scaling = NoScaling()
    gamma: float = Field(default=0.4, gt=0)
    scale_base: float = Field(default=512.0, gt=0)  # tokens


class Pope(Frozen):
    kind: Literal["pope"] = "pope"
    base: float = Field(gt=0)
    scaling: Scaling = NoScaling()


class Alibi(Frozen):
    kind: Literal["alibi"] = "alibi"


class T5(Frozen):
    kind: Literal["t5"] = "t5"
    buckets: int = Field(default=32, ge=2)
    furthest: Positive = 128  # tokens

    @model_validator(mode="after")
    def _buckets_reach(self) -> "T5":
        if self.furthest <= self.buckets // 2:
            raise ValueError(f"furthest = {self.furthest} must be above {self.buckets // 2}, half of the buckets")
        return self


class Kerple(Frozen):
    kind: Literal["kerple"] = "kerple"
    form: Literal["logarithmic", "power"] = "logarithmic"


class Fire(Frozen):
    kind: Literal["fire"] = "fire"
    hidden: Positive = 32


class Cope(Frozen):
    kind: Literal["cope"] = "cope"
    positions: int = Field(default=64, ge=2)


class Sinusoidal(Frozen):
    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedPositions(Frozen):
    """`capacity` is where the table ends, absent at the training length; what lies beyond that length stays untrained."""

    kind: Literal["learned"] = "learned"
    capacity: Positive | None = None


class Nope(Frozen):
    kind: Literal["nope"] = "nope"


Rotating = Rope | XPos | Pope


def _one_kind(position: object) -> object:
    """Said here, because the union would only say that a key is unknown."""
    if isinstance(position, list | tuple):
        raise ValueError("a model has one position encoding at a time; compare two as two arms, [arms.a] and [arms.b]")
    if isinstance(position, dict) and "scaling" in position and position.get("kind") not in ("rope", "xpos", "pope"):
        raise ValueError(
            f'kind = "{position.get("kind")}" has no frequencies that a scaling could change: scaling belongs to "rope", '
            '"xpos" and "pope"; leave it out here'
        )
    return position


Position = Annotated[
    Annotated[
        Rope | Axial | XPos | Pope | Alibi | T5 | Kerple | Fire | Cope | Sinusoidal | LearnedPositions | Nope,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_one_kind),
]


def check_position(position: Position, head_dim: int) -> None:
    """ValueError where a head of this size cannot have that encoding; the nearest one that it can have is named."""
    pairs = head_dim // 2
    if isinstance(position, Rotating):
        check_scaling(position.scaling, position.base, spectrum(position, head_dim))
    if isinstance(position, Rope):
        for name in ("partial", "kept"):
            share = getattr(position, name) * pairs
            if share != round(share) or share < 1:
                nearest = max(1, round(share)) / pairs
                raise ValueError(f"{name} = {getattr(position, name)} is not a whole number of {pairs} pairs; {nearest} is")
        if position.sections is not None and sum(position.sections) != pairs:
            raise ValueError(f"sections {list(position.sections)} divide {sum(position.sections)} pairs, a head has {pairs}")
    if isinstance(position, Axial) and head_dim % (2 * (len(position.grid) + 1)):
        axes = len(position.grid) + 1
        raise ValueError(f"{axes} axes share a head's pairs: the head dimension {head_dim} must be a multiple of {2 * axes}")


def spectrum(position: Rotating, head_dim: int) -> int:
    """The dimension d of w_i = b^(-2i/d), i = 0 … d/2 - 1: PoPE has a frequency a channel, and partial RoPE fewer pairs."""
    if isinstance(position, Pope):
        return 2 * head_dim
    return 2 * round(position.partial * head_dim / 2) if isinstance(position, Rope) else head_dim


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
        case "none":
            return NoScaling()
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


def longest_text(position: Position, head_dim: int, train_length: int) -> tuple[float, str]:
    """The most tokens that an encoding can take (infinite for most), and what ends there."""
    match position:
        case LearnedPositions(capacity=capacity):
            return float(capacity or train_length), "learned positions end"
        case XPos(gamma=gamma, scale_base=scale_base):
            longest = xpos_longest(head_dim, gamma=gamma, scale_base=scale_base)
            return float(longest), "the decay of xPos leaves the range of float32"
        case _:
            return math.inf, ""
