"""The context extensions of RoPE. To add one, write its function in model/positions and its class here."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field

from leadline.experiments.config.base import Factor, Frozen, Positive
from leadline.model.positions import frequencies, yarn
from leadline.model.positions.frequencies import Table

# What the table of a dynamic extension follows: the length of the whole text, of the text up to each query (which rotates every
# key anew), or the position of each token, query or key, which is what a cache of rotated keys comes to.
TablePer = Literal["sequence", "query", "token"]


class TextLengths(NamedTuple):
    """Training length and text length, in tokens."""

    trained: int
    text: int


class Extending(Frozen):
    """A context extension; this one leaves RoPE as it is.

    `original_length` is the training length where a class has one and it is absent.
    """

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:  # noqa: ARG002
        """Inverse frequencies of the spectrum d, float64 [d/2] in rad per token, and the final factor of cos and sin."""
        return frequencies.inverse_frequencies(d, base), 1.0

    def misfits(self, base: float, d: int) -> Iterator[str]:  # noqa: ARG002
        """Why the spectrum d of this base cannot be scaled in that way."""
        yield from ()


class Dynamic(Extending):
    """An extension whose table depends on the length of a text."""

    # the table follows the length of the whole text, of the text up to each query, or the position of each token
    per: TablePer = "sequence"


class NoScaling(Extending):
    """RoPE as it is."""

    kind: Literal["none"] = "none"


class PositionInterpolation(Extending):
    """Position interpolation: every frequency divided by `factor` (Chen et al. 2023)."""

    kind: Literal["pi"] = "pi"
    factor: Factor  # by which the context grows

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:  # noqa: ARG002
        return frequencies.position_interpolation(d, base, self.factor), 1.0


class Ntk(Extending):
    """The base is scaled such that the lowest frequency is interpolated and the highest one stays."""

    def misfits(self, base: float, d: int) -> Iterator[str]:  # noqa: ARG002
        if d < 4:
            yield f"NTK-aware scaling needs a head dimension of 4 or more, not the head dimension {d}"


class NtkAware(Ntk):
    """A larger base, such that the lowest frequency is divided by `factor` and the highest one stays (bloc97 2023)."""

    kind: Literal["ntk"] = "ntk"
    factor: Factor  # by which the context grows

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:  # noqa: ARG002
        return frequencies.ntk_aware(d, base, self.factor), 1.0


class DynamicNtk(Ntk, Dynamic):
    """NTK-aware scaling by a factor that grows with the length of the text (emozilla 2023)."""

    kind: Literal["dynamic_ntk"] = "dynamic_ntk"
    factor: Factor = 1.0  # 1 extends by length / original_length; more extends by more than the text needs
    original_length: Positive | None = None  # tokens; absent: the training length

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:
        return frequencies.dynamic_ntk(d, base, self.factor, self.original_length or lengths.trained, lengths.text), 1.0


class Parts(Extending):
    """The ramp of NTK-by-parts and of YaRN: linear in the number of rotations (the paper) or in the pair (its code)."""

    original_length: Positive | None = None  # tokens; absent: the training length
    beta_fast: float = Field(default=32.0, gt=0)  # rotations within original_length from which a pair stays
    beta_slow: float = Field(default=1.0, gt=0)  # rotations within original_length up to which a pair is interpolated
    ramp: Literal["pairs", "rotations"] = "pairs"  # linear in the pair (its code) or in the number of rotations (the paper)
    truncate: bool = True  # the ends of the ramp are rounded outwards to whole pairs

    def problems(self) -> Iterator[str]:
        if self.beta_fast <= self.beta_slow:
            yield f"beta_fast {self.beta_fast} must be above beta_slow {self.beta_slow}"

    def misfits(self, base: float, d: int) -> Iterator[str]:  # noqa: ARG002
        if base <= 1:
            yield f"YaRN and NTK-by-parts need a RoPE base above 1, of which they take the logarithm, not {base}"

    @property
    def _ramp(self) -> dict[str, Any]:
        return self.model_dump(include={"beta_fast", "beta_slow", "ramp", "truncate"})


class NtkByParts(Parts):
    """Low frequencies are interpolated, high ones stay, between them is a ramp (bloc97 2023)."""

    kind: Literal["ntk_by_parts"] = "ntk_by_parts"
    factor: Factor  # by which the context grows

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:
        return yarn.ntk_by_parts(d, base, self.factor, self.original_length or lengths.trained, **self._ramp), 1.0


class Yarn(Parts):
    """NTK-by-parts and a temperature of the softmax (Peng et al. 2023)."""

    kind: Literal["yarn"] = "yarn"
    factor: Factor  # by which the context grows
    # the final multiplier of cos and sin; absent: 0.1 ln(factor) + 1
    attention_factor: float | None = Field(default=None, gt=0)
    attention_multiplier: float | None = Field(default=None, gt=0)  # on top of 0.1 ln(factor) + 1

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.attention_factor is not None and self.attention_multiplier is not None:
            yield "attention_factor is final and attention_multiplier is on top of 0.1 ln(factor) + 1: give one"

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:
        table = yarn.yarn(d, base, self.factor, self.original_length or lengths.trained, **self._ramp)
        final = yarn.yarn_attention_factor(self.factor, multiplier=self.attention_multiplier or 1.0)
        return table, self.attention_factor or final


class DynamicYarn(Parts, Dynamic):
    """YaRN by a factor that grows with the length of the text."""

    kind: Literal["dynamic_yarn"] = "dynamic_yarn"

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:
        original = self.original_length or lengths.trained
        factor = yarn.yarn_attention_factor(max(1.0, lengths.text / original))
        return yarn.dynamic_yarn(d, base, original, lengths.text, **self._ramp), factor


class Llama3(Extending):
    """The context extension of Llama 3.1: a ramp in rotations, without a temperature (Grattafiori et al. 2024)."""

    kind: Literal["llama3"] = "llama3"
    factor: Factor  # by which the context grows
    original_length: Positive | None = None  # tokens; absent: the training length
    # rotations within original_length up to which a pair is interpolated
    low_frequency_factor: float = Field(default=1.0, gt=0)
    high_frequency_factor: float = Field(default=4.0, gt=0)  # rotations within original_length from which a pair stays

    def problems(self) -> Iterator[str]:
        if self.high_frequency_factor <= self.low_frequency_factor:
            high, low = self.high_frequency_factor, self.low_frequency_factor
            yield f"high_frequency_factor {high} must be above low_frequency_factor {low}"

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:
        band = self.model_dump(include={"low_frequency_factor", "high_frequency_factor"})
        return frequencies.llama3(d, base, self.factor, self.original_length or lengths.trained, **band), 1.0


class LongRope(Dynamic):
    """One searched factor per pair: `short` for texts up to `original_length`, `long` for longer ones (Ding et al. 2024)."""

    kind: Literal["longrope"] = "longrope"
    # a factor per pair for texts of at most original_length tokens; absent: 1
    short: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    # a factor per pair for longer texts; absent: those of NTK-by-parts, one of the factors that the search starts from
    long: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    factor: Factor  # by which the context grows; it sets the attention factor
    original_length: Annotated[int, Field(ge=2)] | None = None  # tokens; absent: the training length
    # the final multiplier of cos and sin; absent: sqrt(1 + ln(factor) / ln(original_length))
    attention_factor: float | None = Field(default=None, gt=0)

    def scaled(self, d: int, base: float, lengths: TextLengths) -> tuple[Table, float]:
        original = self.original_length or lengths.trained
        factors, grown = (self.long, self.factor) if lengths.text > original else (self.short, 1.0)
        searched = factors is not None
        table = frequencies.longrope(d, base, factors) if searched else yarn.ntk_by_parts(d, base, grown, original)
        return table, self.attention_factor or frequencies.longrope_attention_factor(self.factor, original)

    def misfits(self, base: float, d: int) -> Iterator[str]:
        for name, factors in (("short", self.short), ("long", self.long)):
            if factors is not None and len(factors) != d // 2:
                yield f"{name} has {len(factors)} factors: LongRoPE needs one a pair, {d // 2} in all"
            if factors is None and base <= 1:
                yield f"LongRoPE without {name} takes the logarithm of the RoPE base: it must be above 1, not {base}"


Scaling = Annotated[
    NoScaling | PositionInterpolation | NtkAware | DynamicNtk | NtkByParts | Yarn | DynamicYarn | Llama3 | LongRope,
    Field(discriminator="kind"),
]
# How a study extends the context of a trained model: by the evaluation length over the training length, or by the length of a
# text. The dynamic ones of whole sequences are not here: at one length they are `ntk` and `yarn`. LongRoPE is both: its factor
# is that of the evaluation length, and its table changes where a text outgrows the training length.
ByFactor = Literal["pi", "ntk", "ntk_by_parts", "yarn", "yarn_rotations", "llama3", "longrope_query", "longrope_token"]
# The same extensions of the layers without a window alone, as Gemma 3 and gpt-oss have them.
OfFullLayers = Literal["ntk_full", "yarn_full"]
ByLength = Literal["dynamic_ntk_query", "dynamic_ntk_token", "dynamic_yarn_query", "dynamic_yarn_token"]
Extension = Literal[ByFactor, OfFullLayers, ByLength]
_SCALINGS: dict[Extension, Scaling] = {
    "pi": PositionInterpolation(factor=1.0),
    "ntk": NtkAware(factor=1.0),
    "ntk_by_parts": NtkByParts(factor=1.0),
    "yarn": Yarn(factor=1.0),
    "yarn_rotations": Yarn(factor=1.0, ramp="rotations"),
    "llama3": Llama3(factor=1.0),
    "ntk_full": NtkAware(factor=1.0),
    "yarn_full": Yarn(factor=1.0),
    "longrope_query": LongRope(factor=1.0, per="query"),
    "longrope_token": LongRope(factor=1.0, per="token"),
    "dynamic_ntk_query": DynamicNtk(per="query"),
    "dynamic_ntk_token": DynamicNtk(per="token"),
    "dynamic_yarn_query": DynamicYarn(per="query"),
    "dynamic_yarn_token": DynamicYarn(per="token"),
}


def extension_of(name: Extension, factor: float) -> Scaling:
    """The scaling that an extension by `factor` is; every parameter else at its default."""
    return _SCALINGS[name].model_copy(update={} if name in get_args(ByLength) else {"factor": factor})
