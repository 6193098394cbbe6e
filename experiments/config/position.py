"""Position encodings. To add one, write its functions in model/positions and its class here.

Those that are a bias on the scores are in config/position_bias.py. What all share is in config/encoding.py.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from leadline.experiments.config.base import Frozen, Part, Positive
from leadline.experiments.config.encoding import Encoding, Heads, RotationLayout
from leadline.experiments.config.position_bias import Bias
from leadline.experiments.config.scaling import Dynamic, NoScaling, Scaling, TablePer, TextLengths
from leadline.model.positions.frequencies import p_rope, partial
from leadline.model.positions.sections import axial, interleaved_sections, sectioned
from leadline.model.positions.xpos import xpos_decay, xpos_longest


class Rotating(Encoding):
    """RoPE and its kin: frequencies of a base, which a context extension may scale."""

    base: float = Field(gt=0)  # b of the frequencies b^(-2i/d); no default: a base that is missing must be noticed
    scaling: Scaling = NoScaling()  # the context extension

    @property
    def table_per(self) -> TablePer:
        return self.scaling.per if isinstance(self.scaling, Dynamic) else "sequence"

    @property
    def rotation_layout(self) -> RotationLayout:
        return RotationLayout()

    def spectrum(self, heads: Heads) -> int:
        """The dimension d of w_i = b^(-2i/d), i = 0 … d/2 - 1."""
        return heads.size

    def rows(self, heads: Heads, lengths: TextLengths) -> dict[str, Any]:
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
    def rotation_layout(self) -> RotationLayout:
        return RotationLayout(len(self.sections or (1,)), self.interleaved, self.grid)

    def spectrum(self, heads: Heads) -> int:
        """Partial RoPE has fewer pairs."""
        return 2 * round(self.partial * heads.size / 2)

    def rows(self, heads: Heads, lengths: TextLengths) -> dict[str, Any]:
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
    def rotation_layout(self) -> RotationLayout:
        return RotationLayout(len(self.grid) + 1, self.interleaved, self.grid)

    def rows(self, heads: Heads, lengths: TextLengths) -> dict[str, Any]:  # noqa: ARG002
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

    def rows(self, heads: Heads, lengths: TextLengths) -> dict[str, Any]:
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
        Rope | Axial | XPos | Pope | Bias | Sinusoidal | LearnedPositions | Nope,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_one_kind),
]
