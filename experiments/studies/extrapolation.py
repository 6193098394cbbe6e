"""What happens to perplexity past the training length, and which extension of RoPE helps without fine-tuning?"""

import re
from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Table
from experiments.record import Record

STUDY = "extrapolation"
QUESTION = "What happens to perplexity past the training length, and which extension of RoPE helps without fine-tuning?"

ARMS = {"rope": "RoPE", "alibi": "ALiBi"}
EXTENSIONS = {"none": "as it is", "pi": "PI", "ntk": "NTK-aware", "yarn": "YaRN"}
WHOLE = "perplexity"

_PENG = "Peng et al. 2023, arXiv:2309.00071, Table 1"
# At the papers' own scale, and for NTK-aware and YaRN of fine-tuned models: without fine-tuning they are not in print. Nor is
# any counterpart of the last 64 positions.
PUBLISHED = {
    ("rope", "none"): (
        "above 1000 at 4×, LLaMA 7B trained at 2048",
        "Chen et al. 2023, arXiv:2306.15595, section 3.2",
    ),
    ("rope", "pi"): (
        "below 20 at 4×, LLaMA 7B trained at 2048",
        "Chen et al. 2023, arXiv:2306.15595, section 3.2",
    ),
    ("rope", "ntk"): ("6.24 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
    ("rope", "yarn"): ("6.04 at 10240, Llama-2 7B fine-tuned to 8192", _PENG),
    ("alibi", "none"): ("19.73 at 512 → 18.40 at 3072, 247M trained at 512", "Press et al. 2022, arXiv:2108.12409"),
}


def extension_arms(records: Sequence[Record]) -> list[tuple[str, str]]:
    """(arm, extension) pairs that were measured, in the order of the table."""
    return [
        (arm, extension)
        for arm in arms(records, tuple(ARMS))
        for extension in EXTENSIONS
        if any(name.startswith(f"perplexity.{extension}.") for r in records if r.arm == arm for name in r.measurements)
    ]


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
    """The perplexities that occur and the positions that each counts: all of a window, or its last K."""
    found = {re.match(rf"{WHOLE}_last(\d+)\.", name) for record in records for name in record.measurements}
    last = sorted({int(match[1]) for match in found if match})
    return {WHOLE: "all"} | {f"{WHOLE}_last{count}": f"last {count}" for count in last}


def table(records: Sequence[Record]) -> Table:
    """Byte perplexity by length, over whole windows and over their last positions, beside what was published."""
    spans = lengths(records)
    rows = tuple(
        (
            label(arm, extension),
            counted,
            *(cell(records, arm, f"{quantity}.{extension}.{span}", 2) for span in spans),
            *(PUBLISHED.get((arm, extension), (MISSING, MISSING)) if quantity == WHOLE else (MISSING, MISSING)),
        )
        for quantity, counted in quantities(records).items()
        for arm, extension in extension_arms(records)
    )
    columns = ("position encoding", "positions", *(f"{span} tokens" for span in spans), "published", "source")
    meaning = (
        "perplexity of one byte, token-weighted over non-overlapping windows; no fine-tuning; an extension is "
        "stretched by the evaluation length over the training length"
    )
    return Table("Perplexity by evaluation length", STUDY, columns, rows, (*trained_notes(records), meaning))


def sink_table(records: Sequence[Record]) -> Table:
    """The sink by evaluation length, as the model was trained."""
    spans = lengths(records, "sink_rate")
    quantities = (("sink_rate", "sink rate"), ("first_token_mass", "first-token mass"))
    rows = tuple(
        (ARMS.get(arm, arm), title, *(cell(records, arm, f"{quantity}.{span}") for span in spans))
        for arm in arms(records, tuple(ARMS))
        for quantity, title in quantities
    )
    columns = ("position encoding", "quantity", *(f"{span} tokens" for span in spans))
    ratios = (
        f"{ARMS.get(arm, arm)} {found.mean:.1f}"
        for arm in arms(records, tuple(ARMS))
        if not isinstance(found := cell(records, arm, "activation_ratio"), str)
    )
    note = f"largest over median activation: {', '.join(ratios) or MISSING}"
    return Table("Sinks by evaluation length", f"{STUDY}_sinks", columns, rows, (*trained_notes(records), note))
