"""Statements as values of a study's TOML file: what is compared, how, and what must hold for the statement to be testable."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.report import Dims

Needs = dict[Literal["parameters", "steps", "tokens"], float]


class Term(Frozen):
    """A quantity of the arm that a selector of the study names, at some dimensions; `over` divides it by another term.

    Example:
        { quantity = "perplexity", arm = "rope", at = { extension = "yarn", length = { multiple = 8 } } }
    """

    quantity: str  # a name of leadline.experiments.records.quantities
    arm: str  # a name of [selectors]
    at: Dims = Field(default_factory=dict)  # dimensions, as { length = { multiple = 8 } }
    over: "Term | None" = None  # the term that it is divided by; absent: none

    def parts(self) -> Iterator["Term"]:
        """The term itself and those that it is divided by, outermost first."""
        yield self
        if self.over is not None:
            yield from self.over.parts()


class Condition(Frozen):
    """A precondition that is measured, such as a sink in the baseline: without it a claim is not testable here.

    The median over seeds decides, so that a single seed cannot meet it for the others. With `each`, seeds that do not meet it
    are left out too. A claim with such a condition compares no other arm than that of the condition, and no term of the same
    quantity, because they selected the seeds.
    """

    term: Term  # what is measured
    relation: Literal["below", "above"]  # to the value
    value: float  # a number
    reason: str  # what is missing where it is not met, as in "the baseline has no sink"
    each: bool = False  # whether seeds that do not meet it are left out

    def met_by(self, value: float) -> bool:
        """Whether a value meets it."""
        return value > self.value if self.relation == "above" else value < self.value


class Claim(Frozen):
    """A statement and the predicate that decides it.

        below        left < factor · right
        above        left > factor · right
        within       bounds[0] <= left <= bounds[1]
        equivalent   |left - factor · right| <= delta

    With `log`, `delta` is a difference of logarithms. A difference within `delta` of 0 counts as none: a claim whose interval
    lies within ±`delta` is called equivalent. A `function` takes the place of left and relation: it gets the records of all
    arms that the selector `arms` matches, and returns an Evidence (leadline.experiments.records.decisions). A claim without a
    source is counted among our own statements.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")  # lower case letters, digits, - and .
    statement: str = ""  # a sentence that the predicate below decides; left out only where another claim has it
    # what the statement should have said, where it was locked in words that say more or less than the predicate decides:
    # verdicts show it, and say how the statement was locked
    erratum: str = ""
    # the id of the claim, of a study in the same folder, whose statement this one tests at another scale: it takes statement,
    # erratum, source, where, published and shown_at from there
    restates: str = ""
    source: str = ""  # a key of the references; absent for a statement of our own, or one that is said without a source
    where: str = ""  # table, figure or section of the source
    # the published figure; without a source it takes the place of "our own statement", as in "said without a source"
    published: str = ""
    shown_at: str = ""  # the smallest scale at which it was shown
    left: Term | None = None  # the left side
    relation: Literal["below", "above", "within", "equivalent"] | None = None  # between the sides
    right: Term | float | None = None  # a term or a number
    factor: float = Field(default=1.0, gt=0)  # of the right side
    bounds: tuple[float, float] | None = None  # lowest and highest value, for "within"
    delta: Annotated[float, Field(gt=0)] | None = None  # a difference of this size does not count; "equivalent" needs it
    # the relation holds in more than this share of the seeds, as for outcomes that occur or do not
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    log: bool = False  # both sides are compared as logarithms, as ratios are
    # comparisons: one over all seeds, or one for each arm that the selector of `left` matches, all of which must hold
    cases: Literal["seeds", "arms"] = "seeds"
    when: tuple[Condition, ...] = ()  # preconditions that are measured
    # the smallest scale of the arm of `left`, or of all arms of `function`, at which the statement can be tested
    needs: Needs = Field(default_factory=dict)
    function: str | None = None  # code for a predicate that no relation says, as "module:function"
    arms: str = ""  # the selector of what `function` takes

    @property
    def own(self) -> bool:
        """Whether the statement has no source."""
        return not self.source

    def compared(self) -> list[Term]:
        """The terms of the relation, without those that a number is divided by."""
        return [side for side in (self.left, self.right) if isinstance(side, Term)]

    def parts(self) -> list[Term]:
        """Every term, those of the preconditions and those that a number is divided by included."""
        sides = [*self.compared(), *(condition.term for condition in self.when)]
        return [part for side in sides for part in side.parts()]

    def selectors(self) -> list[str]:
        """The selectors of every term and of the function."""
        return list(dict.fromkeys([part.arm for part in self.parts()] + [self.arms] * bool(self.arms)))

    def problems(self) -> Iterator[str]:
        if not self.statement:
            yield f"claim {self.id}: give statement, or restates"
        if self.function is not None:
            if self.left is not None or self.relation is not None:
                yield f"claim {self.id}: give function, or left and relation, not both"
            if not self.arms:
                yield f"claim {self.id}: function takes the arms of a selector: give arms"
            if any(condition.each for condition in self.when):
                yield f"claim {self.id}: a function takes all seeds: remove `each` from when"
            if given := sorted({"right", "factor", "bounds", "share", "log", "cases"} & self.model_fields_set):
                yield f"claim {self.id}: a function takes no {', '.join(given)}: leave them out"
            return
        if self.arms:
            yield f"claim {self.id}: arms are those of a function: give function, or leave arms out"
        if self.left is None or self.relation is None:
            yield f"claim {self.id}: give left and relation, or function"
        within = self.relation == "within"
        if within != (self.bounds is not None) or within == (self.right is not None):
            yield f'claim {self.id}: relation = "within" takes bounds, the others take right'
        if self.relation == "equivalent" and self.delta is None:
            yield f'claim {self.id}: relation = "equivalent" takes delta'
        if within and self.delta is not None:
            yield f'claim {self.id}: relation = "within" has bounds, and takes no delta'
        if within and self.factor != 1.0:
            yield f'claim {self.id}: relation = "within" has bounds, and takes no factor'
        if self.share is not None and self.delta is not None:
            yield f"claim {self.id}: a share of seeds takes no delta"
        # Seeds that were selected for the sink of one arm show more sink in this arm than in an equal one.
        compared = [part for term in self.compared() for part in term.parts()]
        for chosen in (part for condition in self.when if condition.each for part in condition.term.parts()):
            if any(part.arm != chosen.arm or part.quantity == chosen.quantity for part in compared):
                yield (
                    f"claim {self.id}: `each` selects seeds by {chosen.quantity} of {chosen.arm}, which would favour it: "
                    f"compare another quantity of {chosen.arm} alone, or remove `each`"
                )
        if self.bounds is not None and self.bounds[0] > self.bounds[1]:
            yield f"claim {self.id}: bounds = {list(self.bounds)}: the first is the lower one"
        numbers = self.bounds or ((self.right,) if isinstance(self.right, float) else ())
        if self.log and any(number <= 0 for number in numbers):
            yield f"claim {self.id}: log = true compares logarithms: give numbers above 0, not {min(numbers):g}"
