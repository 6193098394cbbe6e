"""A suite of two small studies, one that trains on a text and one that is computed."""

from pathlib import Path

from tests.experiments.configured import write_config

# A study of somebody's own: a file and no code.
MINE = """
study = "mine"
title = "Two sinks of my own"
question = "Does a learned sink logit change the loss?"
seeds = [0, 1]
data = { kind = "text", corpus = ["CORPUS"], length = 16, held_out = 0.3 }
model = { layers = 1, width = 8, heads = 2, hidden = 8, norm = "layer", position = { kind = "rope", base = 100.0 } }
train = { steps = 4, batch = 3, learning_rate = 1e-2 }
tables = [{ title = "Losses of my own", columns = ["loss", "sink_rate"] }]
figures = [{ kind = "step", name = "over_training", caption = "My losses over training.", quantities = ["loss"] }]
[measure]
every = 2
windows = 6
sink.length = 16
perplexity = { lengths = [32], windows = 4, last = 8, extensions = ["pi", "yarn"] }
[arms.softmax]
[arms.learned]
label = "learned sink logit"
model.sink = { kind = "learned" }
[selectors]
learned = { "model.sink" = "learned" }
[[claims]]
id = "mine-loss"
statement = "The loss of a learned sink logit is positive."
left = { quantity = "loss", arm = "learned" }
relation = "above"
right = 0.0
"""
BASES = """
study = "bases"
exact = { kind = "base_bound", head_dims = [32], lengths = [64, 256] }
tables = [{ title = "Bounds", rows = ["config.length"], columns = ["smallest_base"] }]
"""


def suite(folder: Path) -> Path:
    """The suite's file in a folder, beside `mine.toml`, `bases.toml` and the corpus."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(20):
        text = "".join(f"Line {line} of document {number}.\n" for line in range(9))
        (corpus / f"{number}.txt").write_text(text, encoding="utf-8")
    write_config(folder, MINE.replace("CORPUS", str(corpus)), "mine.toml")
    write_config(folder, BASES, "bases.toml")
    return write_config(folder, 'studies = ["mine.toml", "bases.toml"]', "suite.toml")
