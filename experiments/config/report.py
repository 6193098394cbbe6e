"""How the records of a study are shown: tables and figures as values of its TOML file.

Both arrange measurements by keys. A key is "arm"; "family", the arm as the file writes it, whatever a sweep sets;
"quantity"; a dimension of the measurements, as "length"; or a dotted key of the configuration, as
"train.learning_rate" ("config.NAME" for a key at its top, as records of exact studies have them).
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from leadline.experiments.config.base import Frozen, Positive


class TrainingLength(Frozen):
    """A dimension in tokens as a multiple of the length that an arm was trained at: `{ multiple = 8 }`."""

    multiple: float = Field(gt=0)  # of the training length


Dim = TrainingLength | bool | int | float | str
Dims = dict[str, Dim]
# Dotted keys of an arm's configuration and the values that it must have, as `leadline.experiments.records.arms.matches` says.
Selector = dict[str, Any]


class Published(Frozen):
    """A published figure: of an arm, where it is given in the arm's table, or of the row of a table at some dimensions."""

    text: str  # the figure, as readers see it
    source: str  # a key of the references
    where: str = ""  # table, figure or section
    at: Dims = Field(default_factory=dict)  # dimensions of the row


FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.=+-]*$")]  # after the name of the study and `_`


class Column(Frozen):
    """A quantity at some dimensions; "flops", "parameters", "steps" and "seconds" are also those of the record."""

    quantity: str  # a name of leadline.experiments.records.quantities
    at: Dims = Field(default_factory=dict)  # dimensions, as { length = 1024, extension = "yarn" }
    each: str | None = None  # a key: one column for each of its values
    over: str | None = None  # a dimension whose values are repeated measurements, which go into one mean
    heading: str | None = None  # absent: that of the quantity, and its dimensions
    digits: Annotated[int, Field(ge=0)] | None = None  # absent: those of the quantity
    scientific: bool = False  # as in 1.2e-07
    # the share of seeds whose value is above this number, with its exact interval; of lines along training, that has been
    # above it so far
    above: float | None = None


def _column(value: object) -> object:
    return {"quantity": value} if isinstance(value, str) else value


AnyColumn = Annotated[Column, BeforeValidator(_column, json_schema_input_type=str | Column)]


class TableSpec(Frozen):
    """Rows are the arms, or what further keys tell apart; `"quantity"` makes a row of each column's quantity instead.

    Example:
        [[tables]]
        title = "Perplexity by evaluation length"
        rows = ["arm", "extension"]
        columns = [{ quantity = "perplexity", each = "length" }]
    """

    title: str  # above the table
    name: FileName = ""  # of its files; absent: that of the study
    rows: tuple[str, ...] = ("arm",)  # the keys that tell rows apart
    columns: tuple[AnyColumn, ...] = Field(min_length=1)  # quantities, each a name or a table
    where: Selector = Field(default_factory=dict)  # which arms; absent: all
    labels: tuple[str, ...] = ()  # of the arms, or families, that are shown; absent: all
    published: bool | tuple[Published, ...] = False  # figures of the arms (true), or of rows, with their sources
    notes: tuple[str, ...] = ()  # below the table


class FigureSpec(Frozen):
    """One figure: quantities against something, a line (or mark) and a panel for what their keys tell apart.

    `kind` says what is on the horizontal axis:
        length          evaluation length, at which the quantity was measured
        step            training step, from the curves
        value           the value of the configuration key `key`, as a sweep sets it
        layer           layers
        position        places of an array of one axis; the array `x` has their coordinates, or the edges of their bins
        dim             the dimension `dim`
        scatter         the quantity `x` against `quantity`, a mark a head and seed, or a record
        bars            the quantity, sorted; a row for every arm, or value of the key `dim`; a mark for each of several lines
        head            heads, with layers on the vertical axis: the quantity is the colour, a panel for each of several
        attention_map   the attention of one sequence, a row per arm and a column per head
    """

    # what is on the horizontal axis
    kind: Literal["length", "step", "value", "layer", "position", "dim", "scatter", "bars", "head", "attention_map"]
    name: FileName  # of its files
    title: str = ""  # the question that it answers
    caption: str  # below the figure
    quantities: tuple[AnyColumn, ...] = Field(min_length=1)  # what is on the vertical axis, each a name or a table
    x: str | None = None  # the quantity across, of a scatter and of positions, at the dimensions of `at` alone
    key: str | None = None  # of `value`: dotted, as "train.learning_rate"
    dim: str | None = None  # of `dim` and of bars
    at: Dims = Field(default_factory=dict)  # of every quantity
    lines: tuple[str, ...] = ("arm",)  # the keys that tell lines, or marks, apart
    panels: tuple[str, ...] = ()  # the keys that tell panels apart
    relative_to: Dims | None = None  # dimensions of the reading that is subtracted from each
    marks: AnyColumn | None = None  # a quantity in units of the horizontal axis: a dashed line in the colour of its line
    behind: bool = False  # the first line of each panel is grey in the others
    each_seed: bool = False  # every seed has a thin line of its own beside the mean
    where: Selector = Field(default_factory=dict)  # which arms; absent: all
    labels: tuple[str, ...] = ()  # of the arms, or families, that are shown; absent: all
    log: tuple[Literal["x", "y"], ...] = ()  # absent: where values that are no shares span decades
    columns: Positive = 4  # of panels

    def problems(self) -> Iterator[str]:
        for kind, name in (("scatter", "x"), ("value", "key"), ("dim", "dim")):
            if self.kind == kind and getattr(self, name) is None:
                yield f'a figure of kind = "{kind}" needs {name}'
        lines = ("length", "step", "value", "layer", "position", "dim")
        read = {
            "relative_to": (*lines, "bars"),
            "panels": (*lines, "head"),
            "marks": lines,
            "behind": lines,
            "each_seed": lines,
            "x": ("scatter", "position"),
            "key": ("value",),
            "dim": ("dim", "bars"),
        }
        for name, kinds in read.items():
            if getattr(self, name) and self.kind not in kinds:
                yield f'a figure of kind = "{self.kind}" does not read {name}: leave it out'
