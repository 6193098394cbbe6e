"""A suite of small studies, and what its first run came to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from leadline.experiments.runtime.progress import Progress
from leadline.experiments.studies.run import Ran, planned, run
from tests.experiments.configured import write_config

# A study of somebody's own: a file and no code.
MINE = """
study = "mine"
title = "Two sinks of my own"
question = "Does a learned sink logit change the loss?"
seeds = [0, 1]
model = { layers = 1, width = 8, heads = 1, hidden = 8, norm = "layer", feedforward = "relu", position = { kind = "learned" } }
data = { kind = "backcopy", vocabulary = 8, triggers = 2, length = 16 }
train = { steps = 4, batch = 3, learning_rate = 1e-2 }
measure = { every = 2, windows = 6, sink.length = 16 }
tables = [{ title = "Losses of my own", columns = ["loss", "sink_rate"] }]
figures = [{ kind = "step", name = "over_training", caption = "My losses over training.", quantities = ["loss"] }]
[arms.softmax]
[arms.learned]
label = "learned sink logit"
model.sink = { kind = "learned" }
[selectors]
learned = { "model.sink" = "learned" }
sigmoid = { "model.normalizer" = "sigmoid" }
[[claims]]
id = "mine-loss"
statement = "The loss of a learned sink logit is positive."
left = { quantity = "loss", arm = "learned" }
relation = "above"
right = 0.0
[[claims]]
id = "mine-sigmoid"
statement = "The loss of sigmoid attention is positive."
left = { quantity = "loss", arm = "sigmoid" }
relation = "above"
right = 0.0
"""
TEXT = """
study = "text"
seeds = [0]
model = { layers = 1, width = 8, heads = 2, hidden = 8, position = { kind = "rope", base = 100.0 } }
data = { kind = "text", corpus = ["CORPUS"], length = 16, held_out = 0.3 }
train = { steps = 4, batch = 3, learning_rate = 1e-2 }
[measure]
every = 2
windows = 6
sink.length = 16
perplexity = { lengths = [32], windows = 4, last = 8, extensions = ["pi", "yarn"] }
[arms.rope]
[arms.alibi]
model.position = { kind = "alibi" }
"""
BASES = """
study = "bases"
exact = { kind = "base_bound", head_dims = [32], lengths = [64, 256] }
tables = [{ title = "Bounds", rows = ["config.length"], columns = ["smallest_base"] }]
"""


class Run(NamedTuple):
    """The suite's file, its results, its outcome and the tables that were shown."""

    config: Path
    results: Path
    outcome: Ran
    shown: list[str]

    def file(self, study: str) -> Path:
        return self.config.with_name(f"{study}.toml")


def suite(folder: Path) -> Path:
    """A suite of three small studies, of a task, of text and of what is computed, with their corpus, in a folder."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(20):
        text = "".join(f"Line {line} of document {number}.\n" for line in range(9))
        (corpus / f"{number}.txt").write_text(text, encoding="utf-8")
    write_config(folder, MINE, "mine.toml")
    write_config(folder, TEXT.replace("CORPUS", str(corpus)), "text.toml")
    write_config(folder, BASES, "bases.toml")
    return write_config(folder, 'studies = ["mine.toml", "text.toml", "bases.toml"]', "suite.toml")


def run_suite(
    config: Path,
    results: Path,
    *words: str,
    progress: type[Progress] = Progress,
    show: Callable[[str], Any] = lambda _: None,
    console: Console | None = None,
) -> Ran:
    """Runs a file, quietly where no console is given."""
    return run(planned(config, words), results, progress(console or Console(quiet=True)), show)


def first_run(folder: Path) -> Run:
    """Runs the suite in an empty folder."""
    config, results, shown = suite(folder), folder / "results", []
    return Run(config, results, run_suite(config, results, show=shown.append), shown)
