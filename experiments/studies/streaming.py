"""Does window attention need the first tokens of a text, how many of them, and with which positions?

Xiao et al. 2024 (StreamingLLM, arXiv:2309.17453).
"""

import re
from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Cell, Table
from experiments.record import Record

STUDY = "streaming"
QUESTION = "Does window attention need the first tokens of a text, how many of them, and with which positions?"

ARMS = {
    "rope": "RoPE",
    "bos": "RoPE, fixed BOS",
    "bos_logit": "RoPE, fixed BOS, learned logit",
    "bos_gate": "RoPE, fixed BOS, headwise gate",
    "bos_alibi": "ALiBi, fixed BOS",
}
RECOMPUTED, DENSE = "recomputed", "dense"
WHOLE, SAMPLED, START = "perplexity", "perplexity_sampled", "perplexity_start"

# Llama-2 7B with a cache of 4096 on PG19; 160M parameters trained with a context of 1024, as usual, with softmax off by one,
# and with a token that every training text begins with: what a fixed BOS is here.
PUBLISHED = {
    "kept0": ("3359.95", "27.87, 29214, 1235"),
    "kept1": ("11.88", "18.49, 19.90, 18.01"),
    "kept2": ("10.51", "18.05, 18.27, 18.01"),
    "kept4": ("9.59", "18.05, 18.01, 18.02"),
    "kept8": ("9.54", MISSING),
}
_SOURCE = (
    "published: Xiao et al. 2024, arXiv:2309.17453: Llama-2 7B, cache 4096, PG19; 160M parameters, trained at 1024: as usual, "
    "with softmax off by one, with a sink token before every training text"
)


def label(way: str) -> str:
    """`4 kept`, `4 kept, positions of the text`: how a cache policy is called in tables and legends."""
    found = re.fullmatch(r"kept(\d+)(_in_text)?", way)
    if found is None:
        return {RECOMPUTED: "window, re-computed", DENSE: "full attention"}.get(way, way)
    kept = f"{found[1]} kept" if found[1] != "0" else "window, none kept"
    return f"{kept}, positions of the text" if found[2] else kept


def ways(records: Sequence[Record], quantity: str = WHOLE) -> list[str]:
    """What a quantity was measured of: kept tokens in ascending order, those without re-indexing, what is no cache."""
    prefix = f"{quantity}."
    found = {name.removeprefix(prefix) for r in records for name in r.measurements if name.startswith(prefix)}

    def place(way: str) -> tuple[bool, bool, int, str]:
        count = re.search(r"\d+", way)
        return not way.startswith("kept"), way.endswith("_in_text"), int(count[0]) if count else 0, way

    return sorted(found, key=place)


def table(records: Sequence[Record]) -> Table:
    """Byte perplexity by what the cache keeps, a column an arm, beside what was published."""
    shown = arms(records, tuple(ARMS))
    counted = {WHOLE: "all", SAMPLED: "those re-computed", START: f"first {_of_measure(records, 'dense')}"}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            label(way),
            tokens,
            *(cell(records, arm, f"{quantity}.{way}", 3) for arm in shown),
            *(PUBLISHED.get(way, (MISSING, MISSING)) if quantity == WHOLE else (MISSING, MISSING)),
        )
        for quantity, tokens in counted.items()
        for way in ways(records, quantity)
    )
    columns = ("cache", "tokens", *(ARMS.get(arm, arm) for arm in shown), "Llama-2 7B", "160M")
    entries, length = _of_measure(records, "cache"), _of_measure(records, "tokens")
    notes = (
        f"perplexity of one byte of a stream of {length} held-out tokens through a cache of {entries} entries, kept tokens "
        "included; positions are those inside the cache unless the row says otherwise",
        f"those re-computed: a sample of every half-octave of the stream, weighted by its size; a pass over the last {entries} "
        f"tokens serves {_of_measure(records, 'stride')} of them, with BOS in front where it is fixed",
        _SOURCE,
    )
    return Table("Perplexity of a stream by what the cache keeps", STUDY, columns, rows, (*trained_notes(records), *notes))


def trained_length(record: Record) -> int | None:
    """The length [tokens] of the windows that an arm was trained on."""
    data = record.config.get("data")
    length = data.get("length") if isinstance(data, dict) else None
    return length if isinstance(length, int) else None


def _of_measure(records: Sequence[Record], key: str) -> str:
    """A setting of the measurement as it is printed; the cache has the training length where it is not given."""
    found = set()
    for record in records:
        measure = record.config.get("measure")
        value = measure.get(key) if isinstance(measure, dict) else None
        value = trained_length(record) if key == "cache" and value is None else value
        if isinstance(value, int):
            found.add(value)
    return ", ".join(map(str, sorted(found))) or MISSING
