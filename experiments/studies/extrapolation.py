"""What happens to perplexity past the training length, and which extension of RoPE helps without fine-tuning?"""

import re
from collections.abc import Iterable, Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Cell, Table
from experiments.record import Record

STUDY = "extrapolation"
QUESTION = "What happens to perplexity past the training length, and which extension of RoPE helps without fine-tuning?"

ARMS = {
    "rope": "RoPE",
    "rope_dynamic": "RoPE, one table a text or many",
    "rope_gated": "RoPE, gated",
    "rope_base20": "RoPE, base 20",
    "partial": "partial RoPE, 1/4",
    "p_rope": "p-RoPE, 3/4",
    "irope": "iRoPE",
    "drope": "DroPE",
    "xpos": "xPos",
    "pope": "PoPE",
    "alibi": "ALiBi",
    "t5": "T5 buckets",
    "kerple": "KERPLE, log",
    "kerple_power": "KERPLE, power",
    "fire": "FIRE",
    "cope": "CoPE",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "nope": "NoPE",
    "tuned": "RoPE, fine-tuned at 4×",
    "tuned_pi": "RoPE, PI, fine-tuned at 4×",
    "tuned_ntk": "RoPE, NTK-aware, fine-tuned at 4×",
    "tuned_yarn": "RoPE, YaRN, fine-tuned at 4×",
    "tuned_short": "RoPE, trained on at 1×",
    "tuned_base20": "RoPE, base 20, trained on at 1×",
    "tuned_drope": "DroPE, trained on at 1×",
}
EXTENSIONS = {
    "none": "as it is",
    "pi": "PI",
    "ntk": "NTK-aware",
    "dynamic_ntk_query": "dynamic NTK, by query",
    "dynamic_ntk_token": "dynamic NTK, by token",
    "ntk_by_parts": "NTK-by-parts",
    "yarn": "YaRN",
    "yarn_rotations": "YaRN, ramp in rotations",
    "dynamic_yarn_query": "dynamic YaRN, by query",
    "dynamic_yarn_token": "dynamic YaRN, by token",
    "llama3": "Llama 3",
}
WHOLE = "perplexity"
_QUANTITIES = {
    WHOLE: "all",
    f"{WHOLE}_windows": "all, mean of windows",
    f"{WHOLE}_documents": "all, mean of documents",
}

_CHEN = "Chen et al. 2023, arXiv:2306.15595, section 3.2"
_PENG = "Peng et al. 2023, arXiv:2309.00071, Table 1"
# At the papers' own scale, and for NTK-aware and YaRN of fine-tuned models: without fine-tuning they are not in print. Nor is
# any counterpart of the last 64 positions.
PUBLISHED = {
    ("rope", "none"): ("above 1000 at 4×, LLaMA 7B trained at 2048", _CHEN),
    ("rope", "pi"): ("below 20 at 4×, LLaMA 7B trained at 2048", _CHEN),
    ("rope", "ntk"): ("6.24 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
    ("rope", "yarn"): ("6.04 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
    ("alibi", "none"): ("19.73 at 512 → 18.40 at 3072, 247M trained at 512", "Press et al. 2022, arXiv:2108.12409"),
    ("tuned_pi", "none"): ("3.34 at 8192, 8.07 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
    ("tuned_ntk", "none"): ("3.59 at 8192, 6.24 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
    ("tuned_yarn", "none"): ("3.35 at 8192, 6.04 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
}


def extension_arms(records: Sequence[Record]) -> list[tuple[str, str]]:
    """(arm, extension) pairs that were measured, in the order of the table; extensions that it does not know come last."""
    return [(arm, extension) for arm in arms(records, tuple(ARMS)) for extension in _extensions(records, arm)]


def _extensions(records: Sequence[Record], arm: str) -> list[str]:
    names = (name.split(".") for record in records if record.arm == arm for name in record.measurements)
    found = {parts[1] for parts in names if parts[0] == WHOLE and len(parts) == 3}
    return [name for name in EXTENSIONS if name in found] + sorted(found - set(EXTENSIONS))


def label(arm: str, extension: str) -> str:
    """`RoPE`, `RoPE, YaRN`: how an arm and its extension are called in tables and legends."""
    name = ARMS.get(arm, arm)
    return name if extension == "none" else f"{name}, {EXTENSIONS.get(extension, extension)}"


def lengths(records: Sequence[Record], quantity: str = "perplexity.none") -> list[int]:
    """The evaluation lengths that occur, ascending."""
    prefix = f"{quantity}."
    found = {name.removeprefix(prefix) for r in records for name in r.measurements if name.startswith(prefix)}
    return sorted(int(length) for length in found)


def quantities(records: Sequence[Record]) -> dict[str, str]:
    """The perplexities that occur, and what each counts: all positions, in three means, or the last K."""
    measured = {name.split(".")[0] for record in records for name in record.measurements}
    last = sorted(int(match[1]) for name in measured if (match := re.fullmatch(rf"{WHOLE}_last(\d+)", name)))
    whole = {name: counted for name, counted in _QUANTITIES.items() if name in measured or name == WHOLE}
    return whole | {f"{WHOLE}_last{count}": f"last {count}" for count in last}


def trained_length(record: Record) -> int | None:
    """The length [tokens] of the windows that an arm was trained on."""
    data = record.config.get("data")
    length = data.get("length") if isinstance(data, dict) else None
    return int(length) if isinstance(length, int | float) else None


def table(records: Sequence[Record]) -> Table:
    """Byte perplexity by length, over whole windows and over their last positions, beside what was published."""
    stretched = "no fine-tuning; an extension is stretched by the evaluation length over the training length"
    return perplexity_table(records, extension_arms(records), "Perplexity by evaluation length", STUDY, stretched)


def perplexity_table(
    records: Sequence[Record], pairs: Iterable[tuple[str, str]], title: str, name: str, *remarks: str
) -> Table:
    """A row a (arm, extension) and way of counting, a column a length; its notes say which means they are, and the stride."""
    listed = list(pairs)
    shown = {arm for arm, _ in listed}
    own = [record for record in records if record.arm in shown or record.status == "diverged"] or list(records)
    spans = lengths(own, "perplexity.none")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            label(arm, extension),
            counted,
            *(cell(own, arm, f"{quantity}.{extension}.{span}", 2) for span in spans),
            *(PUBLISHED.get((arm, extension), (MISSING, MISSING)) if quantity == WHOLE else (MISSING, MISSING)),
        )
        for quantity, counted in quantities(own).items()
        for arm, extension in listed
    )
    columns = ("position encoding", "positions", *(f"{span} tokens" for span in spans), "published", "source")
    conventions = f"perplexity of one byte, token-weighted over {_windows(own)}"
    notes = ("; ".join((conventions, *remarks)), *_means(own))
    return Table(title, name, columns, rows, (*trained_notes(own), *notes))


def _windows(records: Sequence[Record]) -> str:
    measures = (record.config.get("measure") for record in records)
    found = (measure.get("stride") for measure in measures if isinstance(measure, dict))
    strides = sorted({stride for stride in found if isinstance(stride, int)})
    if not strides:
        return "non-overlapping windows"
    return f"sliding windows, stride {', '.join(map(str, strides))}, every token counted once"


def _means(records: Sequence[Record]) -> tuple[str, ...]:
    if not set(quantities(records)) & (set(_QUANTITIES) - {WHOLE}):
        return ()
    return (
        "all: exp of the mean loss over tokens; mean of windows (of documents): exp of the mean over windows (documents) of "
        "their own means; a document ends at EOS",
    )


def sink_table(records: Sequence[Record], name: str = f"{STUDY}_sinks") -> Table:
    """The sink by evaluation length, as the model was trained."""
    spans = lengths(records, "sink_rate")
    quantities = (("sink_rate", "sink rate"), ("first_token_mass", "first-token mass"))
    shown = {arm: label(arm, "none") for arm in arms(records, tuple(ARMS))}
    rows = tuple(
        (shown[arm], title, *(cell(records, arm, f"{quantity}.{span}") for span in spans))
        for arm in shown
        for quantity, title in quantities
    )
    columns = ("position encoding", "quantity", *(f"{span} tokens" for span in spans))
    ratios = (
        f"{shown[arm]} {found.mean:.1f}"
        for arm in shown
        if not isinstance(found := cell(records, arm, "activation_ratio"), str)
    )
    note = f"largest over median activation: {', '.join(ratios) or MISSING}"
    return Table("Sinks by evaluation length", name, columns, rows, (*trained_notes(records), note))


def tuned_arms(records: Sequence[Record]) -> set[str]:
    """The arms that started from the weights of another one."""
    return {record.arm for record in records if record.config.get("start") is not None}
