"""A group-sequential plan: seeds are added until a claim is decided, and the chance of a false decision stays at 5 % in all."""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scipy import special

LEVEL = 0.05
GROWTH = 1.5  # of the number of seeds from look to look
# A look just before the last one would leave the last a smaller error, which could take a decision back.
LEAST_GROWTH = 1.3


class Levels(NamedTuple):
    """The chance of a false decision."""

    now: float = LEVEL  # at this look
    largest: float = LEVEL  # of all looks: that at which an undecided claim is decided most easily


ONE_LOOK = Levels()


@dataclass(frozen=True)
class SeedPlan:
    """The numbers of seeds at which claims are judged, and the error that each look may spend.

    The spending function of O'Brien and Fleming's form (Lan and DeMets 1983) allows 2 (1 - Φ(z / √t)) up to the share t of all
    seeds, with z = Φ^-1(0.975). A look takes the difference to the look before, which leaves out that looks depend on each
    other and so errs on the safe side.

    Attributes:
        first: seeds of the first look.
        most: seeds of the last one; None where seeds are never added.
    """

    first: int
    most: int | None = None

    def looks(self) -> list[int]:
        """The numbers of seeds, in rising order."""
        looks = [self.first]
        while looks[-1] < (self.most or 0):
            number, most = math.ceil(GROWTH * looks[-1]), self.most or 0
            looks.append(number if LEAST_GROWTH * number <= most else most)
        return looks

    def level(self, seeds: int) -> float:
        """The error of the look that so many seeds have reached; of the first one where they are fewer."""
        looks = self.looks()
        spent = [0.0, *(self._spent(look / looks[-1]) for look in looks)]
        number = max(1, sum(look <= seeds for look in looks))
        return spent[number] - spent[number - 1]

    def levels(self, seeds: int, cases: int = 1) -> Levels:
        """The error of the look that so many seeds have reached, and the largest error of a look, over `cases` (Bonferroni)."""
        return Levels(self.level(seeds) / cases, max(map(self.level, self.looks())) / cases)

    @staticmethod
    def _spent(share: float) -> float:
        return float(2 * special.ndtr(special.ndtri(LEVEL / 2) / math.sqrt(share)))


def seeds_of_look(seeds: Sequence[int], explored: Collection[int], number: int) -> list[int]:
    """The first `number` seeds of a study: its own, then the next integers, without those that its recipe was chosen on."""
    more = (seed for seed in itertools.count(max(seeds) + 1) if seed not in explored)
    return list(itertools.islice(itertools.chain(seeds, more), number))
