"""Position encodings (model/positions says what they compute)."""

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from leadline.experiments.config.base import Frozen, Part, Positive
from leadline.experiments.config.scaling import NoScaling, Scaling, check_scaling
from leadline.model.positions.xpos import xpos_longest


class Temperature(Frozen):
    """Queries of layers without positions are multiplied by 1 + strength · ln(1 + floor((i + 1) / span)) (Llama 4)."""

    strength: float = Field(default=0.1, ge=0)
    span: Positive = 8192


class Rope(Frozen):
    """`partial` squeezes the whole spectrum into a part of the pairs; `p` (p-RoPE) leaves that part of the spectrum and no
    frequency below. `nope_every` takes the positions from every n-th layer (iRoPE), `drop_after` from all layers after that
    part of the training (DroPE). `sections` give each coordinate of the position its pairs (M-RoPE); the tokens stand on a
    grid with the sizes `grid` of all axes but the first, and [] is a text, where all coordinates are equal."""

    kind: Literal["rope"] = "rope"
    base: float = Field(gt=0)  # no default: a base that is missing must be noticed
    scaling: Scaling = NoScaling()
    interleaved: bool = False
    partial: Part = 1.0
    p: Part = 1.0
    nope_every: int | None = Field(default=None, ge=1)
    temperature: Temperature | None = None
    drop_after: Part | None = None
    sections: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=2)
    interleaved_sections: bool = False
    grid: tuple[Positive, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> "Rope":
        if self.partial < 1 and self.p < 1:
            raise ValueError("partial and p both leave pairs without rotation, in two ways: give one of them")
        if self.sections is not None and (self.partial < 1 or self.p < 1):
            raise ValueError("sections divide all pairs: leave partial and p at 1")
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
        for name in ("partial", "p"):
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
