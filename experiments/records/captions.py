"""What is said of records in words: seeds, text, provenance, scale and the column of the ledger."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from leadline.experiments.records import quantities
from leadline.experiments.records.measurement import Dim, Measurement, resolve
from leadline.experiments.records.record import Record, created_at

# The columns of the ledger, beside one for each published model.
TOY, SMALL_LM, ON_ACCELERATOR = "toy task", "small language model", "trained on an accelerator"
FOR_SINK, EXACT, NOT_RUN = "small language model, recipe chosen for a sink", "without training", "not run"
COLUMNS = (TOY, SMALL_LM, FOR_SINK, ON_ACCELERATOR, EXACT, NOT_RUN)
LANGUAGE = ("text", "mixed")  # kinds of data of which all or half is text
CORPORA = {"stdlib": "Python's standard library", "docstrings": "docstrings of Python's standard library"}
# Dimensions of what is measured on windows of its own, and the `of` of their counts.
TEXT_OF = {"frequency_bin": "frequency", "input": "inputs", "intervention": "interventions"}


def notes_of(records: Sequence[Record]) -> tuple[str, ...]:
    """The notes under a table: seeds and spread of what is trained, what diverged, held-out data, texts, provenance."""
    if not records:
        return ()
    trained = any(record.steps for record in records)
    measured = measured_text(records)
    texts = {f"{r.data['source']}, {r.data['edition']}; {r.data['normalization']}" for r in records if "edition" in r.data}
    return (
        *(_seeds_notes(records) if trained else ()),
        *([f"measured on {measured}{' that are held out' if trained else ''}"] if measured else []),
        *([f"texts: {' and '.join(sorted(texts))}"] if texts else []),
        *provenance(records),
    )


def measured_text(records: Iterable[Record], at: Mapping[str, object] | None = None, quantity: str = "") -> str:
    """What records were measured on: `256 windows from 52 to 54 documents`, or `8,192 answers`; empty where they do not say.

    Args:
        records: whose counts are read.
        at: dimensions of what was measured; None for all. Counts at another length, or of another span, are of other text.
        quantity: what was measured; all that is measured on text where it is empty.
    """
    counted = quantities.quantity(quantity).counted
    if counted == "weights":
        return ""
    of_answers = counted == "answers"
    counts = [
        (entry, dims)
        for record in records
        for dims in [None if at is None else ({} if of_answers else _window(record, quantity)) | (resolve(record, at) or {})]
        for entry in record.measurements
        if entry.value is not None
    ]
    if of_answers:
        names, entries = ("answer",), _counts_of_answers(counts)
    else:
        names, entries = ("target", "window", "document"), _counts_of_text(counts, at or {}, quantity)
    numbers = {name: {round(entry.value or 0) for entry in entries if entry.quantity == f"{name}s"} for name in names}
    text = " from ".join(
        f"{_span(values, '{:,}'.format)} {name}{'' if values == {1} else 's'}" for name, values in numbers.items() if values
    )
    of_part = "part" in (at or {}) and not any("part" in entry.dims for entry in entries)
    return f"a part of {text}" if text and of_part else text


# Measurements, and the dimensions of what was measured: None for all.
Counts = Sequence[tuple[Measurement, Mapping[str, object] | None]]


def _window(record: Record, quantity: str) -> dict[str, Dim]:
    """The length of the windows of a model of text that a quantity is measured on, where its dimensions do not say another."""
    if published_model(record) or not measures_text(record):
        return {}
    tables: Any = record.config
    of_sinks = quantities.quantity(quantity).counted == "sinks"
    table = tables.get("measure", {}).get("sink", {}) if of_sinks else tables["data"]
    return {"length": table["length"]} if "length" in table else {}  # a configuration of other times may lack it


def _counts_of_answers(counts: Counts) -> list[Measurement]:
    """The most exact of the numbers of answers that hold what was measured."""
    held = [entry for entry, dims in counts if dims is None or entry.dims.items() <= dims.items()]
    answers = [entry for entry in held if entry.quantity == "answers"]
    most = max((len(entry.dims) for entry in answers), default=0)
    return [entry for entry in answers if len(entry.dims) == most]


def _counts_of_text(counts: Counts, at: Mapping[str, object], quantity: str) -> list[Measurement]:
    """The numbers of the text of a quantity; without its own, those of the loss, which have no `of`; without these, all."""
    entries = [entry for entry, dims in counts if dims is None or _of_same_text(entry, dims)]
    if not quantity:
        return [entry for entry in entries if entry.quantity != "targets"]  # which are of a bin of ids each
    own_text = {quantity, *(TEXT_OF[name] for name in at if name in TEXT_OF)}
    targets = [entry for entry in entries if entry.quantity == "targets" and entry.dims.items() <= at.items()]
    of_quantity = targets + [entry for entry in entries if entry.dims.get("of") in own_text]
    of_loss = [entry for entry in entries if "of" not in entry.dims and entry.quantity in ("windows", "documents")]
    return of_quantity or of_loss or entries


def _of_same_text(count: Measurement, dims: Mapping[str, object]) -> bool:
    """Whether a number of windows or documents is of the text that was measured at these dimensions."""
    if count.dims.get("span") != dims.get("span"):
        return False
    return all(count.dims.get(name, value) == value for name, value in dims.items())


def _seeds_notes(records: Sequence[Record]) -> Iterator[str]:
    """How many seeds were trained, arm by arm where that differs, and of each arm which diverged: they are in no mean."""
    seeds: dict[str, set[int]] = {}
    diverged: dict[str, set[int]] = {}
    for record in records:
        arm = record.label or record.arm
        seeds.setdefault(arm, set()).add(record.seed)
        if record.status == "diverged":
            diverged.setdefault(arm, set()).add(record.seed)
    spread = "mean ± sample standard deviation"
    n, *others = {len(trained) for trained in seeds.values()}
    if others:
        yield f"seeds per arm: {', '.join(f'{arm} {len(trained)}' for arm, trained in seeds.items())}; {spread}"
    else:
        yield f"n = {n} seed{'s' if n != 1 else ''} per arm; {spread if n > 1 else 'no spread can be stated'}"
    if diverged:
        lost = (f"{arm} ({'all' if gone == seeds[arm] else _listed(gone)})" for arm, gone in diverged.items())
        yield f"diverged and left out of the means: {'; '.join(lost)}"


def _listed(seeds: Collection[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"


def provenance(records: Sequence[Record]) -> tuple[str, ...]:
    """Commit, versions, date, device and cost of the records, as notes under a table."""
    commits = {f"{(r.commit or 'unknown')[:12]}{' (modified)' if r.dirty else ''}" for r in records}
    versions = {f"Python {r.versions['python']}, JAX {r.versions['jax']}" for r in records}
    dates = _span([f"{created_at(r):%Y-%m-%d}" for r in records], str)
    devices = {f"{r.device['count']} × {r.device['kind']} ({r.device['platform']}{_products(r)})" for r in records}
    seconds, number = sum(r.seconds for r in records), f"{len(records)} record{'s' if len(records) != 1 else ''}"
    return (
        f"commit {', '.join(sorted(commits))}; {'; '.join(sorted(versions))}; {dates} UTC",
        f"device {', '.join(sorted(devices))}; {seconds:,.0f} s in all, summed over {number}",
    )


def _products(record: Record) -> str:
    """How products of float32 were rounded in training, where that is not to float32."""
    model = record.config.get("model")
    trained = record.steps > 0 and isinstance(model, dict) and model.get("compute_dtype", "float32") == "float32"
    return ", float32 products in TF32" if trained and record.device["platform"] == "gpu" else ""


def count(number: float | int) -> str:
    """A number of parameters, steps, tokens or FLOPs as it is printed: `1.23M`."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # what three digits round up to it
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def published_model(record: Record) -> str:
    """The name of the published model that was measured, which is `model` of its configuration; empty for all other records."""
    model = record.config.get("model")
    return model if isinstance(model, str) else ""


def ledger_column(records: Sequence[Record], *, sink_recipe: bool = False) -> str:
    """The column of the ledger that records are in: the name of a published model, or one of COLUMNS.

    Args:
        records: of one study.
        sink_recipe: whether its recipe was chosen for a sink, and not for its loss.
    """
    if not records:
        return NOT_RUN
    if names := {published_model(record) for record in records} - {""}:
        return " and ".join(sorted(names))
    trained = [record for record in records if record.steps]
    if not trained:
        return EXACT
    if sink_recipe:
        return FOR_SINK
    if all(record.device["platform"] != "cpu" for record in trained):
        return ON_ACCELERATOR
    return SMALL_LM if any(map(measures_text, trained)) else TOY


def scale(records: Sequence[Record]) -> str:
    """What was measured: a kind of model with layers, width, parameters, steps and tokens; `exact` for what was computed."""
    trained = [record for record in records if record.steps > 0]
    if names := sorted({published_model(record) for record in records} - {""}):
        return f"{' and '.join(names)}, {parameters(records)}"
    if not trained:
        return "exact" if records else ""
    models: list[Any] = [model for record in trained if isinstance(model := record.config.get("model"), dict)]
    widths: dict[int, set[int]] = {}
    for model in models:
        widths.setdefault(model["layers"], set()).add(model["width"])
    shapes = [f"{layers} layer{'s' * (layers != 1)} of width {_either(widths[layers])}" for layers in sorted(widths)]
    sizes = (f"{_span([getattr(record, field) for record in trained], count)} {field}" for field in ("steps", "tokens"))
    parts = (" and ".join(sorted(set(map(_kind, trained)))), " or ".join(shapes), parameters(trained), *sizes)
    return ", ".join(part for part in parts if part)


def training(records: Sequence[Record]) -> str:
    """How models were trained: `small language model, 2 layers of width 64, …, on windows of 128 bytes of …`."""
    trained = [record for record in records if record.steps > 0]
    data: list[Any] = [record.config["data"] for record in trained]
    lengths = _either({entry["length"] for entry in data if "length" in entry})
    if not any(map(measures_text, trained)):
        return f"{scale(trained)}, on sequences of {lengths} tokens" if lengths else scale(trained)
    unit = "tokens" if any(entry.get("tokenizer") for entry in data) else "bytes"
    corpora = {str(record.data.get("name", "text")) for record in trained}
    named = " and ".join(sorted(CORPORA.get(name, name) for name in corpora))
    return f"{scale(trained)}, on windows of {lengths} {unit} of {named}"


def _either(numbers: Iterable[int]) -> str:
    """`32, 64 or 128`."""
    *first, last = [*map(str, sorted(numbers))] or [""]
    return f"{', '.join(first)} or {last}" if first else last


def parameters(records: Iterable[Record]) -> str:
    """`116k to 124k parameters`."""
    return f"{_span([record.parameters for record in records], count)} parameters"


def measures_text(record: Record) -> bool:
    """Whether the record is of a model of text. Its held-out text is a random draw."""
    data = record.config.get("data")
    return bool(published_model(record)) or (isinstance(data, dict) and data.get("kind") in LANGUAGE)


def _kind(record: Record) -> str:
    """What a trained model is: of language, or of a task; and where it was trained, unless on a CPU."""
    platform = record.device["platform"]
    kind = SMALL_LM if measures_text(record) else TOY
    return kind if platform == "cpu" else f"{kind} on {platform.upper()}"


def _span(values: Collection[Any], write: Callable[[Any], str]) -> str:
    low, high = write(min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"
