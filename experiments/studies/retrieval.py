"""What do position encodings find in their context: at which depth, and beyond the training length?"""

import re
from collections.abc import Sequence

import numpy as np

from experiments.data.retrieval.vocabulary import AT_A_DEPTH, TASKS
from experiments.measure.retrieval import wilson
from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Table
from experiments.record import Record

STUDY = "retrieval"
QUESTION = "What do position encodings find in their context: at which depth, and beyond the training length?"

ARMS = {
    "rope": "RoPE",
    "partial": "partial RoPE",
    "p_rope": "p-RoPE",
    "alibi": "ALiBi",
    "t5": "T5 bias",
    "nope": "NoPE",
    "learned": "learned",
}
TITLES = {
    "passkey": "passkey",
    "multi_key": "multi-key",
    "multi_query": "multi-query",
    "multi_value": "multi-value",
    "variable_tracking": "variable tracking",
    "key_value": "key-value lookup",
    "copy": "copy",
    "addition": "addition",
}
_LIU = "Liu et al. 2023, arXiv:2307.03172"
_KAZEMNEJAD = "Kazemnejad et al. 2023, arXiv:2305.19466"
# What the papers say of each task, without figures that would have to be read off their plots.
PUBLISHED = {
    "key_value": ("lower in the middle than at either end", _LIU),
    "copy": ("beyond the trained length NoPE above RoPE and ALiBi", _KAZEMNEJAD),
    "addition": ("beyond the trained length NoPE above RoPE and ALiBi", _KAZEMNEJAD),
}
_MEANING = (
    "an answer is right if all of its tokens are the argmax, as greedy decoding would give them; copy and addition beyond the "
    "training length are of sizes that no training row had"
)


def lengths(records: Sequence[Record], task: str) -> list[int]:
    """The lengths at which a task was measured, ascending."""
    names = {name for record in records for name in record.measurements}
    found = (re.fullmatch(rf"accuracy\.{task}\.(\d+)", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def tasks(records: Sequence[Record]) -> list[str]:
    """The tasks that were measured, in the order of the ids."""
    return [task for task in TASKS if lengths(records, task)]


def table(records: Sequence[Record]) -> Table:
    """Accuracy by task, encoding and length, of whole answers and of their tokens."""
    spans = sorted({span for task in tasks(records) for span in lengths(records, task)})
    rows = tuple(
        (
            TITLES[task],
            ARMS.get(arm, arm),
            *(cell(records, arm, f"accuracy.{task}.{span}") for span in spans),
            *(cell(records, arm, f"token_accuracy.{task}.{span}") for span in spans),
            *PUBLISHED.get(task, (MISSING, MISSING)),
        )
        for task in tasks(records)
        for arm in arms(records, tuple(ARMS))
    )
    columns = (
        "task",
        "position encoding",
        *(f"answers, {span} tokens" for span in spans),
        *(f"tokens of answers, {span}" for span in spans),
        "published",
        "source",
    )
    notes = (*trained_notes(records), *_interval_note(records), _MEANING)
    return Table("Retrieval accuracy by task and length", STUDY, columns, rows, notes)


def depth_table(records: Sequence[Record]) -> Table:
    """Accuracy where the needle is at the beginning, in the middle and at the end."""
    rows = tuple(
        (
            TITLES[task],
            ARMS.get(arm, arm),
            f"{span} tokens",
            *(cell(records, arm, f"accuracy_{where}.{task}.{span}") for where in ("first", "middle", "last")),
        )
        for task in tasks(records)
        if task in AT_A_DEPTH
        for span in lengths(records, task)
        for arm in arms(records, tuple(ARMS))
    )
    columns = ("task", "position encoding", "length", "first eighth", "middle quarter", "last eighth")
    return Table("Retrieval accuracy by depth", f"{STUDY}_depth", columns, rows, trained_notes(records))


def _interval_note(records: Sequence[Record]) -> tuple[str, ...]:
    """How well one seed's accuracy is known: the widest interval, that of one half."""
    counts = {
        int(found.value)
        for record in records
        for name, found in record.measurements.items()
        if name.startswith("count.") and found.value
    }
    if not counts:
        return ()
    least = min(counts)
    low, high = wilson(np.array([least / 2]), np.array([least]))
    half = float(high[0] - low[0]) / 2
    return (f"{least} answers or more a seed: the 95 % interval (Wilson) of one seed's accuracy is within ± {half:.3f}",)
