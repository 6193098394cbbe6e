"""Position encodings. To add one, write its functions in model/positions and its class here.

A class says what a model takes of its encoding: rows of its tables, weights that add to the scores, or neither. What is
compiled in besides (model.block.BlockConfig) is in config/to_model.py.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from leadline.experiments.config.base import Frozen, Part, Positive
from leadline.experiments.config.scaling import Dynamic, Lengths, NoScaling, Scaling, TablePer
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.frequencies import p_rope, partial
from leadline.model.positions.sections import axial, interleaved_sections, sectioned
from leadline.model.positions.xpos import xpos_decay, xpos_longest

if TYPE_CHECKING:
    from leadline.model.positions.relative import PositionBias


class Heads(NamedTuple):
    """Of a layer: their number N and their channels H."""

    number: int
    size: int


class Turning(NamedTuple):
    """What is compiled in where positions turn pairs of channels; all else of them is in rows of the tables."""

    coordinates: int = 1  # of a position
    interleaved: bool = False  # pairs are neighbouring channels
    grid: tuple[int, ...] = ()  # sizes of all axes but the first


class Encoding(Frozen):
    """A position encoding; this one is none."""

    @property
    def table_per(self) -> TablePer:
        """What the rows of a model's tables depend on."""
        return "sequence"

    @property
    def turning(self) -> Turning | None:
        """How positions turn pairs of channels; None where they turn none."""
        return None

    def rows(self, heads: Heads, lengths: Lengths) -> dict[str, Any]:  # noqa: ARG002
        """Arguments of `model.positions.tables.position_tables`, which has a default for each, for a text of that length."""
        return {}

    def bias(self) -> "PositionBias | None":
        """What is added to the scores. The classes import it here, since it needs JAX and reading a configuration does not."""
        return None

    def longest(self, heads: Heads, trained: int) -> tuple[float, str]:  # noqa: ARG002
        """The most tokens of a text, and what ends there."""
        return math.inf, ""

    def misfits(self, heads: Heads) -> Iterator[str]:  # noqa: ARG002
        """Why heads of this size cannot have the encoding; the nearest that they can have is named."""
        yield from ()


class Rotating(Encoding):
    """RoPE and its kin: frequencies of a base, which a context extension may scale."""

    base: float = Field(gt=0)  # b of the frequencies b^(-2i/d); no default: a base that is missing must be noticed
    scaling: Scaling = NoScaling()  # the context extension

    @property
    def table_per(self) -> TablePer:
        return self.scaling.per if isinstance(self.scaling, Dynamic) else "sequence"

    @property
    def turning(self) -> Turning:
        return Turning()

    def spectrum(self, heads: Heads) -> int:
        """The dimension d of w_i = b^(-2i/d), i = 0 … d/2 - 1."""
        return heads.size

    def rows(self, heads: Heads, lengths: Lengths) -> dict[str, Any]:
        table, factor = self.scaling.scaled(self.spectrum(heads), self.base, lengths)
        return {"inverse_frequencies": table, "attention_factor": factor}

    def misfits(self, heads: Heads) -> Iterator[str]:
        yield from self.scaling.misfits(self.base, self.spectrum(heads))


class Temperature(Frozen):
    """Queries of layers without positions are multiplied by 1 + strength · ln(1 + floor((i + 1) / span)) (Llama 4)."""

    strength: float = Field(default=0.1, ge=0)  # s of the factor 1 + s · ln(1 + floor((i + 1) / span))
    span: Positive = 8192  # tokens


class Rope(Rotating):
    """Rotary position embedding (Su et al. 2021): pair i of query and key rotates by position · base^(-2i/d)."""

    kind: Literal["rope"] = "rope"
    interleaved: bool = False  # pairs are neighbouring channels, instead of channels i and i + d/2
    partial: Part = 1.0  # the whole spectrum squeezed into this part of the pairs
    p: Part = 1.0  # p-RoPE: this part of the spectrum rotates, its lowest frequencies do not
    nope_every: int | None = Field(default=None, ge=1)  # iRoPE: every n-th layer has no positions; absent: no layer
    temperature: Temperature | None = None  # of the queries of layers without positions; absent: 1
    drop_after: Part | None = None  # DroPE: all layers lose their positions after this part of the training
    # M-RoPE: the pairs that each coordinate of a position has; absent: one coordinate
    sections: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=2)
    interleaved_sections: bool = False  # pairs are dealt to the sections in turn
    # sizes of all axes but the first of the grid that tokens stand on; []: all coordinates are equal, as in text
    grid: tuple[Positive, ...] = ()

    def problems(self) -> Iterator[str]:
        if self.partial < 1 and self.p < 1:
            yield "partial and p both leave pairs without rotation, in two ways: give one of them"
        if self.sections is not None and (self.partial < 1 or self.p < 1):
            yield "sections divide all pairs: leave partial and p at 1"
        if self.interleaved_sections and self.sections is None:
            yield "interleaved_sections says how pairs are dealt to sections: give sections = [16, 24, 24], say"
        if self.grid and len(self.grid) + 1 != len(self.sections or ()):
            yield f"a grid of {len(self.grid) + 1} axes needs as many sections, not {len(self.sections or ())}"
        if self.temperature is not None and self.nope_every is None:
            yield "the temperature is that of layers without positions: give nope_every = 4, say"

    @property
    def turning(self) -> Turning:
        return Turning(len(self.sections or (1,)), self.interleaved, self.grid)

    def spectrum(self, heads: Heads) -> int:
        """Partial RoPE has fewer pairs."""
        return 2 * round(self.partial * heads.size / 2)

    def rows(self, heads: Heads, lengths: Lengths) -> dict[str, Any]:
        table, factor = self.scaling.scaled(self.spectrum(heads), self.base, lengths)
        if self.partial < 1:
            squeezed = partial(heads.size, self.partial, lambda rotary: table)  # noqa: ARG005
            return {"inverse_frequencies": squeezed.table, "attention_factor": np.where(squeezed.rotated, factor, 1.0)}
        if self.sections is not None:
            divide = interleaved_sections if self.interleaved_sections else sectioned
            return {"inverse_frequencies": divide(table, self.sections), "attention_factor": factor}
        return {"inverse_frequencies": p_rope(table, self.p), "attention_factor": factor}

    def misfits(self, heads: Heads) -> Iterator[str]:
        yield from super().misfits(heads)
        pairs = heads.size // 2
        for name, part in (("partial", self.partial), ("p", self.p)):
            rotated = max(1, round(part * pairs))
            if pairs and not math.isclose(part * pairs, rotated):
                yield f"{name} = {part} is not a whole number of {pairs} pairs; {rotated / pairs} is"
        if self.sections is not None and sum(self.sections) != pairs:
            yield f"sections {list(self.sections)} divide {sum(self.sections)} pairs, a head has {pairs}"


class Axial(Encoding):
    """2-D RoPE and its likes: the channels divided among the axes of a grid, each with its own whole spectrum."""

    kind: Literal["axial"] = "axial"
    base: float = Field(default=100.0, gt=0)  # b of the frequencies of each axis
    grid: tuple[Positive, ...] = Field(min_length=1)  # sizes of all axes but the first
    interleaved: bool = False  # pairs are neighbouring channels

    @property
    def turning(self) -> Turning:
        return Turning(len(self.grid) + 1, self.interleaved, self.grid)

    def rows(self, heads: Heads, lengths: Lengths) -> dict[str, Any]:  # noqa: ARG002
        return {"inverse_frequencies": axial(heads.size, self.base, len(self.grid) + 1)}

    def misfits(self, heads: Heads) -> Iterator[str]:
        axes = len(self.grid) + 1
        if heads.size % (2 * axes):
            yield (f"{axes} axes share a head's pairs: the head dimension {heads.size} must be a multiple of {2 * axes}")


class XPos(Rotating):
    """RoPE whose pairs decay with distance, the fast ones sooner (Sun et al. 2022)."""

    kind: Literal["xpos"] = "xpos"
    gamma: float = Field(default=0.4, gt=0)  # the decay per scale_base tokens of pair i is (2i/d + gamma) / (1 + gamma)
    scale_base: float = Field(default=512.0, gt=0)  # tokens

    def rows(self, heads: Heads, lengths: Lengths) -> dict[str, Any]:
        decay = xpos_decay(heads.size, gamma=self.gamma, scale_base=self.scale_base)
        return {**super().rows(heads, lengths), "decay": decay}

    def longest(self, heads: Heads, trained: int) -> tuple[float, str]:  # noqa: ARG002
        longest = xpos_longest(heads.size, gamma=self.gamma, scale_base=self.scale_base)
        return float(longest), "the decay of xPos leaves the range of float32"


class Pope(Rotating):
    """Content sets magnitudes, position sets angles, with one frequency per channel (Gopalakrishnan et al. 2025)."""

    kind: Literal["pope"] = "pope"

    def spectrum(self, heads: Heads) -> int:
        """PoPE has a frequency per channel."""
        return 2 * heads.size


class Alibi(Encoding):
    """Scores minus slope · distance, with a fixed slope for each head (Press et al. 2022)."""

    kind: Literal["alibi"] = "alibi"
    exponent: float = Field(default=8.0, gt=0)  # e of the slopes 2^(-e n / N) of the heads n = 1 … N
    factor: float = Field(default=1.0, gt=0)  # multiplies every slope

    def rows(self, heads: Heads, lengths: Lengths) -> dict[str, Any]:  # noqa: ARG002
        return {"slopes": self.factor * alibi_slopes(heads.number, self.exponent)}


class T5(Encoding):
    """A trained number for each head and bucket of distances, added to the scores (Raffel et al. 2020)."""

    kind: Literal["t5"] = "t5"
    buckets: int = Field(default=32, ge=2)  # number of buckets
    furthest: Positive = 128  # tokens; all distances from here on share the last bucket
    shared: bool = False  # all layers have one table, as in T5 itself; an encoder and a decoder have one each

    def problems(self) -> Iterator[str]:
        if self.furthest <= self.buckets // 2:
            yield f"furthest = {self.furthest} must be above {self.buckets // 2}, half of the buckets"

    def bias(self) -> "PositionBias":
        from leadline.model.positions import t5

        return t5.T5(self.buckets, self.furthest)


class Kerple(Encoding):
    """A kernel of the distance with two trained numbers for each head, added to the scores (Chi et al. 2022)."""

    kind: Literal["kerple"] = "kerple"
    form: Literal["logarithmic", "power"] = "logarithmic"  # of the kernel

    def bias(self) -> "PositionBias":
        from leadline.model.positions import kerple

        return kerple.Kerple(self.form)


class Fire(Encoding):
    """A small network of the distance relative to the position of the query, added to the scores (Li et al. 2024)."""

    kind: Literal["fire"] = "fire"
    hidden: Positive = 32  # channels of the network

    def bias(self) -> "PositionBias":
        from leadline.model.positions import fire

        return fire.Fire(self.hidden)


class Cope(Encoding):
    """Positions that count gates of query and key, added to the scores (Golovneva et al. 2024)."""

    kind: Literal["cope"] = "cope"
    positions: int = Field(default=64, ge=2)  # how many positions have a vector

    def bias(self) -> "PositionBias":
        from leadline.model.positions import cope

        return cope.Cope(self.positions)


class Sinusoidal(Encoding):
    """Sines and cosines of the position, added to the embedding (Vaswani et al. 2017)."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedPositions(Encoding):
    """A trained vector for each position, added to the embedding. Positions beyond the training length stay untrained."""

    kind: Literal["learned"] = "learned"
    capacity: Positive | None = None  # positions of the table; absent: the training length

    def longest(self, heads: Heads, trained: int) -> tuple[float, str]:  # noqa: ARG002
        return float(self.capacity or trained), "learned positions end"


class Nope(Encoding):
    """No position encoding (NoPE)."""

    kind: Literal["nope"] = "nope"


def _one_kind(position: object) -> object:
    """Said here, because the union would only say that a key is unknown."""
    if isinstance(position, list | tuple):
        raise ValueError("a model has one position encoding at a time; compare two as two arms, [arms.a] and [arms.b]")
    if isinstance(position, dict) and "scaling" in position and position.get("kind", "rope") not in ("rope", "xpos", "pope"):
        raise ValueError(
            f'kind = "{position["kind"]}" has no frequencies that a scaling could change: scaling belongs to "rope", '
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
