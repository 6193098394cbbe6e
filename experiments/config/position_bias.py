"""Position encodings that are a bias on the scores. To add one, write its functions in model/positions and its class here."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from leadline.experiments.config.base import Positive
from leadline.experiments.config.encoding import Encoding, Heads
from leadline.experiments.config.scaling import TextLengths
from leadline.model.positions.alibi import alibi_slopes

if TYPE_CHECKING:
    from leadline.model.positions.relative import PositionBias


class Alibi(Encoding):
    """Scores minus slope · distance, with a fixed slope for each head (Press et al. 2022)."""

    kind: Literal["alibi"] = "alibi"
    exponent: float = Field(default=8.0, gt=0)  # e of the slopes 2^(-e n / N) of the heads n = 1 … N
    factor: float = Field(default=1.0, gt=0)  # multiplies every slope

    def rows(self, heads: Heads, lengths: TextLengths) -> dict[str, Any]:  # noqa: ARG002
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
    threshold: float = Field(default=512.0, gt=0)  # tokens; positions up to it are not normalised; where training starts

    def bias(self) -> "PositionBias":
        from leadline.model.positions import fire

        return fire.Fire(self.hidden, self.threshold)


class Cope(Encoding):
    """Positions that count gates of query and key, added to the scores (Golovneva et al. 2024)."""

    kind: Literal["cope"] = "cope"
    positions: int = Field(default=64, ge=2)  # how many positions have a vector

    def bias(self) -> "PositionBias":
        from leadline.model.positions import cope

        return cope.Cope(self.positions)


Bias = Alibi | T5 | Kerple | Fire | Cope
