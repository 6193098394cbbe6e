"""Statements as values of a study's TOML file: what is compared, how, and what must hold for the statement to be testable."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.report import Dims


class Term(Frozen):
    """A quantity of the arm that a selector of the study names, at some dimensions; `over` divides it by another term.

    Example:
        { quantity = "perplexity", arm = "rope", at = { extension = "yarn", length = { multiple = 8 } } }
    """

    quantity: str
    arm: str
    at: Dims = Field(default_factory=dict)
    over: "Term | None" = None

    def parts(self) -> Iterator["Term"]:
        """The term itself and those that it is divided by, outermost first."""
        yield self
        if self.over is not None:
            yield from self.over.parts()


class Condition(Frozen):
    """A precondition that is measured, such as a sink in the baseline: without it a claim is not testable here.

    The median over seeds decides, so that one seed of several does not meet it for all.
    """

    term: Term
    relation: Literal["below", "above"]
    value: float
    reason: str  # what is missing where it is not met, as in "the baseline has no sink"


class Claim(Frozen):
    """One statement and the predicate that decides it: the two say the same.

        below        left < factor · right
        above        left > factor · right
        within       bounds[0] <= left <= bounds[1]
        equivalent   |left - factor · right| < delta

    `right` is a term or a number. With `log` both sides are compared as logarithms, as ratios are, and `delta` is a difference
    of logarithms. A difference that is neither below nor above but within `delta` of 0 is called equivalent. `share` makes it
    a statement about seeds: the relation holds in more than that share of them, as for outcomes that occur or do not. `needs`
    gives the smallest scale (a field of the record: parameters, steps, tokens) of the arm of `left`, or of all arms that a
    `function` takes, at which the statement can be tested. `cases` says how many comparisons there are: "seeds" is one, over
    seeds; "arms" one for each arm that the selector of `left` matches, all of which must hold. `function` names code for a
    predicate that no relation says, as `module:function`; it takes the records of all arms that the selector `arms` matches
    and returns an Evidence (leadline.experiments.records.evidence).
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    statement: str = Field(min_length=1)
    source: str = ""  # a key of the references; absent for a statement of our own
    where: str = ""  # table, figure or section of the source
    published: str = ""  # the published figure
    shown_at: str = ""  # the smallest scale at which it was shown
    left: Term | None = None
    relation: Literal["below", "above", "within", "equivalent"] | None = None
    right: Term | float | None = None
    factor: float = Field(default=1.0, gt=0)
    bounds: tuple[float, float] | None = None
    delta: Annotated[float, Field(gt=0)] | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    log: bool = False
    cases: Literal["seeds", "arms"] = "seeds"
    when: tuple[Condition, ...] = ()
    needs: dict[Literal["parameters", "steps", "tokens"], float] = Field(default_factory=dict)
    function: str | None = None
    arms: str = ""  # the selector of what `function` takes

    @property
    def own(self) -> bool:
        """Whether the statement is ours, and not a published one."""
        return not self.source

    def compared(self) -> list[Term]:
        """The terms of the relation, without those that a number is divided by."""
        return [side for side in (self.left, self.right) if isinstance(side, Term)]

    def selectors(self) -> list[str]:
        """The selectors of every term, those of the preconditions included, and of the function."""
        sides = [*self.compared(), *(condition.term for condition in self.when)]
        return list(dict.fromkeys([part.arm for side in sides for part in side.parts()] + [self.arms] * bool(self.arms)))

    def problems(self) -> Iterator[str]:
        if self.function is not None:
            if self.left is not None or self.relation is not None:
                yield f"claim {self.id}: give function, or left and relation, not both"
            if not self.arms:
                yield f"claim {self.id}: function takes the arms of a selector: give arms"
            return
        if self.left is None or self.relation is None:
            yield f"claim {self.id}: give left and relation, or function"
        within = self.relation == "within"
        if within != (self.bounds is not None) or within == (self.right is not None):
            yield f'claim {self.id}: relation = "within" takes bounds, the others take right'
        if self.relation == "equivalent" and self.delta is None:
            yield f'claim {self.id}: relation = "equivalent" takes delta'
        if within and self.delta is not None:
            yield f'claim {self.id}: relation = "within" has bounds, and takes no delta'
        if self.share is not None and self.delta is not None:
            yield f"claim {self.id}: a share of seeds takes no delta"
        if self.bounds is not None and self.bounds[0] > self.bounds[1]:
            yield f"claim {self.id}: bounds = {list(self.bounds)}: the first is the lower one"
