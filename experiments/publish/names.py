"""What readers see for quantities, dimensions and their values."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.config.data import TASKS
from leadline.experiments.config.report import Dims, TrainingLength
from leadline.experiments.measure.exact.texts import LANGUAGES
from leadline.experiments.records.quantities import QUANTITIES, Quantity

MISSING = "–"

# Values whose name is not that of the record with blanks, in the order in which they are shown.
VALUES: Mapping[str, Mapping[Any, str]] = {
    "extension": {
        "pi": "PI",
        "ntk": "NTK-aware",
        "dynamic_ntk_query": "dynamic NTK, by query",
        "dynamic_ntk_token": "dynamic NTK, by token",
        "ntk_by_parts": "NTK-by-parts",
        "yarn": "YaRN",
        "yarn_rotations": "YaRN, ramp in rotations",
        "ntk_full": "NTK-aware, full layers",
        "yarn_full": "YaRN, full layers",
        "dynamic_yarn_query": "dynamic YaRN, by query",
        "dynamic_yarn_token": "dynamic YaRN, by token",
        "llama3": "Llama 3",
        "longrope_query": "LongRoPE, by query",
        "longrope_token": "LongRoPE, by token",
    },
    "task": {
        **{task: task.replace("_", "-") for task in TASKS},
        "variable_tracking": "variable tracking",
        "key_value": "key-value lookup",
    },
    "input": {"natural": "natural text", "random": "random tokens", "repeated": "one token repeated"},
    "bos": {"fixed": "BOS first", "absent": "no BOS"},
    "part": {"first": "first eighth", "middle": "middle quarter", "last": "last eighth"},
    "language": LANGUAGES,
    "protocol": {
        "windows": "mean of windows",
        "sliding": "sliding window",
        "documents": "mean of documents",
        "last": "last positions",
    },
    "policy": {"streaming": "cache", "recomputed": "window, re-computed", "full": "full attention"},
    "positions": {
        "cache": "positions in cache",
        "text": "positions of text",
        "none": "none",
        "rope": "RoPE",
        "alibi": "ALiBi",
    },
    "scale": {"none": "without a scale", "1/sqrt(d)": "1/sqrt(d)"},
    "span": {"stream": "all", "sampled": "sampled", "start": "first tokens"},
    "published": {
        "men2024": "Men et al. 2024",
        "su2024": "Su 2024",
        "blog": "table of unknown origin",
        "llama2": "Llama 2",
        "codellama": "Code Llama",
        "llama3": "Llama 3",
        "mixtral": "Mixtral",
        "qwen2.5": "Qwen2.5",
        "gpt_oss": "gpt-oss",
        "smollm2": "SmolLM2",
        "gemma2": "Gemma 2",
        "gemma3": "Gemma 3",
    },
    "frequencies": {"base_5e6": "base 5e6", "slowed_by_8": "base 1e4, slow pairs slowed by 8"},
    "of": {"smallest_base": "smallest base", "largest_infeasible_base": "largest infeasible base"},
    "data.tokenizer": {"bpe": "BPE", "unigram": "unigram"},
    "data.bos": {
        "fixed": "BOS first",
        "absent": "no BOS",
        "random": "a random token first",
        "document": "BOS before each document",
    },
}
# A value that a reading lacks.
ABSENT: Mapping[str, str] = {"extension": "as trained", "protocol": "all positions", "data.tokenizer": "bytes"}
# How a number of a dimension is written; the others have their name before it.
UNITS: Mapping[str, str] = {
    "length": "{} tokens",
    "config.length": "{} tokens",
    "data.length": "trained at {} tokens",
    "initial_tokens": "{} initial",
    "last": "last {}",
    "model.position.base": "base {}",
    "config.head_dim": "d = {}",
}
# Axes whose name is not their key.
AXES: Mapping[str, str] = {
    "length": "evaluation length (tokens)",
    "step": "training step",
    "train.learning_rate": "learning rate",
    "model.position.base": "RoPE base",
    "position_edges": "position (tokens)",
    "data.length": "training length (tokens)",
    "config.length": "context (tokens)",
    "config.vocabulary": "vocabulary size (tokens)",
}
# Units that axes name in other words.
UNIT_NAMES: Mapping[str, str] = {"1": "", "share": "fraction", "ids": "tokens"}
# No axis of these is logarithmic unless the figure says so.
SHARES = ("share", "probability", "cosine")


def with_unit(quantity: Quantity) -> str:
    """A quantity as an axis names it: `first token mass (fraction)`."""
    unit = UNIT_NAMES.get(quantity.unit, quantity.unit)
    told = "(" in quantity.heading or unit in quantity.heading.split()
    return quantity.heading if told or not unit else f"{quantity.heading} ({unit})"


def key_name(key: str) -> str:
    """A key as the heading of a column: its last part, with blanks."""
    return "arm" if key == "family" else key.split(".")[-1].replace("_", " ")


def axis_name(key: str) -> str:
    """A key as the name of an axis; one that is a quantity too has its unit."""
    return AXES.get(key) or (with_unit(QUANTITIES[key]) if key in QUANTITIES else key_name(key))


def value_name(key: str, value: object, *, bare: bool = False) -> str:
    """The value of a key as a label: `1024 tokens`, `layer 2`, `YaRN`; `bare` where a heading names the key already."""
    if value is None:
        return ABSENT.get(key, MISSING)
    if isinstance(value, str):
        return VALUES.get(key, {}).get(value) or value.replace("_", " ")
    text = f"{value:g}".replace("e+0", "e") if isinstance(value, float) else str(value)
    if bare:
        return text
    return UNITS[key].format(text) if key in UNITS else f"{key_name(key)} {text}"


def dims_name(dims: Dims) -> str:
    """Dimensions as a label: `YaRN, 8×`."""
    return ", ".join(
        f"{value.multiple:g}×" if isinstance(value, TrainingLength) else value_name(key, value) for key, value in dims.items()
    )


def order(key: str, value: object) -> tuple[int, float, str]:
    """Where a value stands among others of its key: absent ones first, numbers ascending, known texts, others by name."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, bool | int | float):
        return (1, float(value), "")
    known = list(VALUES.get(key, {}))
    return (1, float(known.index(value)), "") if value in known else (2, 0.0, str(value))
