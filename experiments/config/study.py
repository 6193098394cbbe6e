"""A study: one TOML file with its question, its arms, what is measured of them, and how the records are shown and judged."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from leadline.experiments.config.base import Frozen, Positive, nearest
from leadline.experiments.config.claim import Claim, Needs
from leadline.experiments.config.data import Data, MixedData
from leadline.experiments.config.exact import Exact
from leadline.experiments.config.measure import Measure
from leadline.experiments.config.measured import Measured
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.report import FigureSpec, Published, Selector, TableSpec
from leadline.experiments.config.train import TrainConfig

# What a study makes of its sweep: each arm takes a millisecond and 15 kB before anything is trained.
MOST_ARMS = 10_000


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    before: set[int] = set()
    for seed in seeds:
        if seed in before:
            raise ValueError(f"{seed} is there twice: a seed is one member of a study")
        before.add(seed)
    return seeds


Seed = Annotated[int, Field(ge=0, lt=2**32 - 1)]  # uint32 on the device; the last one draws what is held out
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_distinct)]
LONGEST_NAME = 100  # characters; a file system takes 255 bytes, of which a hash and an ending take some
# What lies beside the folders of studies: of reports, of the log, of benchmarks and of trackers.
IN_RESULTS = ("figures", "index.html", "leadline.log", "references.bib", "tables", "bench", "tensorboard", "wandb")
FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*")


def _folder_name(name: str) -> str:
    if not FOLDER.fullmatch(name):
        raise ValueError(f"{name!r} names a folder: use letters, digits and _ . = + - only, and begin with none of . = + -")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{name[:20]}… names a folder and has {len(name)} characters; {LONGEST_NAME} are the most")
    return name


def _dotted(sweep: object) -> object:
    """Tables in tables as dotted keys: without quotes, TOML reads the key of a sweep as tables. Lists are tuples."""
    if not isinstance(sweep, dict):
        return tuple(sweep) if isinstance(sweep, list) else sweep
    flat: dict[str, object] = {}
    for key, value in sweep.items():
        below = _dotted(value)
        flat |= {f"{key}.{rest}": entry for rest, entry in below.items()} if isinstance(below, dict) and below else {key: below}
    return flat


Swept = Annotated[tuple[object, ...], Field(min_length=1)]
Name = Annotated[str, AfterValidator(_folder_name)]
# Keys of studies that train.
OF_TRAINING = ("seeds", "most_seeds", "explored", "sink_recipe", "model", "data", "train", "measure", "arms", "only", "sweep")
RESERVED = ("claims", "ledger", "protocols", "scales", "totals")


class Settings(Measured):
    """What trains and measures one model: everything that an arm may change."""

    train: TrainConfig

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if isinstance(self.data, MixedData) and self.train.batch % 2:
            yield f"train.batch = {self.train.batch} is odd: half of its rows are text, half recall"


class Study(Frozen):
    """Either models that are trained, or what `exact` computes; each with its tables, figures and claims."""

    study: Name  # the name of the study, and of its folder
    title: str = ""  # heading; absent: the name
    question: str = ""  # what the study asks
    command: str = ""  # runs the study; absent: leadline run FILE, with the file that it was read from
    seeds: Seeds = (0, 1, 2)  # each trains every arm once
    # seeds are added up to this number where claims are undecided; absent: 30, or `--limit`, with `leadline run --decide`
    most_seeds: Annotated[int, Field(gt=1)] | None = None
    explored: Annotated[tuple[int, ...], AfterValidator(_distinct)] = ()  # seeds that the recipe was chosen on: none of `seeds`
    # whether the recipe of a language model was chosen for a sink, not for its loss: the ledger counts such claims apart
    sink_recipe: bool = False
    model: ModelConfig | None = None  # the model of every arm
    data: Data | None = None  # what every arm is trained on
    train: TrainConfig | None = None  # how every arm is trained
    measure: Measure = Measure()  # what is measured of every arm
    exact: Exact | None = None  # what is computed instead of training
    # by name, what an arm changes; absent: one arm without changes
    arms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    only: tuple[str, ...] = ()  # the arms to run, with those that they start from; all where it is empty
    # dotted keys, each with a list of values: every arm is run with every combination
    sweep: Annotated[dict[str, Swept], BeforeValidator(_dotted)] = Field(default_factory=dict)
    # by name, the dotted keys and the values by which claims find their arms
    selectors: dict[str, Selector] = Field(default_factory=dict)
    tables: tuple[TableSpec, ...] = ()  # made from the records
    figures: tuple[FigureSpec, ...] = ()  # made from the records
    claims: tuple[Claim, ...] = ()  # statements that the records decide
    needs: Needs = Field(default_factory=dict)  # the smallest scale at which claims are judged that name no other

    @property
    def heading(self) -> str:
        return self.title or self.study.replace("_", " ")

    @property
    def runs_with(self) -> str:
        """The command that runs the study. Old records keep none; their files are in configs/."""
        return self.command or f"leadline run configs/{self.study}.toml"

    def problems(self) -> Iterator[str]:
        given = [name for name in OF_TRAINING if name in self.model_fields_set]
        if self.exact is not None and given:
            yield f"a study with [exact] trains nothing: leave out {', '.join(given)}"
        for name in ("model", "data", "train"):
            if self.exact is None and getattr(self, name) is None:
                yield f"{name}: this key is required, unless [exact] says what is computed without training"
        arms = max(len(self.arms), 1) * math.prod(map(len, self.sweep.values()))
        if arms > MOST_ARMS:
            yield f"sweep: it makes {arms} arms, and a study has at most {MOST_ARMS}; divide it"
        for table, names in (
            *((f"sweep.{key}", [str(value) for value in values]) for key, values in self.sweep.items()),
            ("tables", [spec.name for spec in self.tables]),
            ("figures", [spec.name for spec in self.figures]),
            ("claims", [claim.id for claim in self.claims]),
        ):
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield f"{table}: {name!r} is there twice"
        if self.most_seeds is not None and self.most_seeds < len(self.seeds):
            yield f"most_seeds = {self.most_seeds} is below the {len(self.seeds)} seeds of the study: give a larger number"
        if tested := sorted(set(self.explored) & set(self.seeds)):
            yield f"seeds {tested} are in explored, too: a recipe is not tested on the seeds that it was chosen on"
        if self.study in RESERVED:
            yield f"study = {self.study!r}: the tables of the ledger have this name; take another"
        if self.study in IN_RESULTS:
            yield f"study = {self.study!r}: results folders have a file or folder of this name; take another"
        for claim in self.claims:
            for name in claim.selectors():
                if name not in self.selectors:
                    yield f"claim {claim.id}: [selectors] lacks {name!r}{nearest(name, list(self.selectors))}"


class Start(Frozen):
    """Where the training of an arm goes on: from the last weights of another arm of its study, of the same seed."""

    arm: str
    length: Positive  # that the first weights were trained at, before any arm between: what scalings are relative to
    steps: Positive  # made before, by that arm and those that it started from: the data go on where they stopped


class Arm(Settings):
    """One row of a table: a name and everything that training and measuring it needs."""

    name: Name  # of the arm, and of its folder
    label: str = ""  # what readers see; absent: the name
    published: tuple[Published, ...] = ()  # published figures that stand beside those of the arm
    start: Start | None = None  # the arm of the study that training goes on from; absent: fresh weights

    @property
    def original_length(self) -> int:
        """The training length to which the factors of scalings relate: that of the arm at the beginning of all."""
        return self.data.length if self.start is None else self.start.length
