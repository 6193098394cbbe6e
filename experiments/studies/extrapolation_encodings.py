"""How far does each position encoding reach, and how far does each extension take it, with and without fine-tuning?

The study of `extrapolation` with every encoding: the same measurements, more tables.
"""

from collections.abc import Sequence

from experiments.publish.table import Table
from experiments.record import Record
from experiments.studies import extrapolation
from experiments.studies.extrapolation import extension_arms, perplexity_table, trained_length, tuned_arms

STUDY = "encodings"
QUESTION = "How far does each position encoding reach, and how far does each extension take it, with and without fine-tuning?"


def table(records: Sequence[Record]) -> Table:
    """Every encoding as it was trained, at every length."""
    tuned = tuned_arms(records)
    pairs = [(arm, extension) for arm, extension in extension_arms(records) if extension == "none" and arm not in tuned]
    return perplexity_table(records, pairs, "Position encodings by evaluation length", STUDY, "no fine-tuning")


def extensions_table(records: Sequence[Record]) -> Table:
    """Every extension of every encoding that has frequencies, without fine-tuning."""
    tuned = tuned_arms(records)
    pairs = [(arm, extension) for arm, extension in extension_arms(records) if arm not in tuned]
    extended = {arm for arm, extension in pairs if extension != "none"}
    remark = "no fine-tuning; stretched by the evaluation length over the training length"
    shown = [(arm, extension) for arm, extension in pairs if arm in extended]
    return perplexity_table(records, shown, "Context extensions by evaluation length", f"{STUDY}_extensions", remark)


def tuned_table(records: Sequence[Record]) -> Table:
    """Arms that went on from the weights of another one: with another scaling, base or length."""
    tuned = tuned_arms(records)
    pairs = [(arm, extension) for arm, extension in extension_arms(records) if arm in tuned]
    remarks = [f"{extrapolation.label(arm, 'none')} ({arm}): {_began(records, arm)}" for arm, _ in dict(pairs).items()]
    return perplexity_table(records, pairs, "After fine-tuning, by evaluation length", f"{STUDY}_tuned", *remarks)


def sink_table(records: Sequence[Record]) -> Table:
    """The sink of every encoding by evaluation length."""
    return extrapolation.sink_table(records, f"{STUDY}_sinks")


def _began(records: Sequence[Record], arm: str) -> str:
    own = next(record for record in records if record.arm == arm)
    start = own.config["start"]
    first = start.get("arm") if isinstance(start, dict) else None
    return f"{own.steps} steps at {trained_length(own)} tokens, from {first}"
