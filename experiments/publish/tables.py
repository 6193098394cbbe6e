"""Tables of a study from its records, as its file describes them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from leadline.experiments.config.report import Column, TableSpec
from leadline.experiments.config.study import Study
from leadline.experiments.publish.names import MISSING, key_name
from leadline.experiments.publish.shown import QUANTITY, Key, Named, Shown, file_name, free_dims, of_record, shown
from leadline.experiments.publish.table import Cell, Table
from leadline.experiments.records.captions import notes_of
from leadline.experiments.records.estimates import share_interval
from leadline.experiments.records.measurement import Dim, resolve
from leadline.experiments.records.over_seeds import statistic
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.references import cite

# What a column may show of the record itself.
FIELDS = ("flops", "parameters", "steps", "seconds")
# The place of a cell in its row: the number of its column in the specification, and the value of `each`.
Place = tuple[int, Dim | None]


def table(spec: TableSpec, study: Study, stored: Iterable[StoredRecord], arms_of: Named | None = None) -> Table:
    """A row for what the keys of the specification tell apart, a column for each quantity or value of `each`.

    Cells are means over seeds and sample standard deviations, of the records of the study among `stored`. Rows and columns
    without a number are left out, and the notes are about the records that have one or diverged. `arms_of`: as in `shown`.
    """
    chosen = shown(spec, study, stored, arms_of)
    (numbers, told), lost = _numbers(spec, chosen), _diverged(spec, chosen)
    rows = sorted({row for row, _ in (*numbers, *lost)}, key=lambda row: chosen.place(spec.rows, row))
    places = sorted(
        {place for _, place in numbers or lost} | {place for _, place in lost if spec.columns[place[0]].each is not None},
        key=lambda place: (place[0], chosen.place((spec.columns[place[0]].each or "",), place[1:])),
    )
    cited = [_cited(spec, chosen, row) for row in rows]
    sources = ("published", "source") if any(cited) else ()
    body = []
    for row, figures in zip(rows, cited, strict=True):
        keys = dict(zip(spec.rows, row, strict=True))
        names = [chosen.text(key, value, bare=True) for key, value in keys.items()]
        columns = [spec.columns[int(str(keys.get(QUANTITY, place[0])))] for place in places]
        cells = [
            _cell(numbers.get((row, place), []), lost.get((row, place), 0), column, chosen)
            for place, column in zip(places, columns, strict=True)
        ]
        body.append((*names, *cells, *((figures or (MISSING, MISSING)) if sources else ())))
    heading = (*(key_name(key) for key in spec.rows), *(_heading(spec, chosen, place) for place in places), *sources)
    return Table(spec.title, file_name(study, spec.name), heading, tuple(body), (*spec.notes, *notes_of(told)))


def _readings(column: Column, record: Record) -> Iterator[tuple[Mapping[str, Dim], float]]:
    entries = [entry for entry in record.measurements if entry.quantity == column.quantity]
    if not entries and column.quantity in FIELDS:
        yield {}, float(getattr(record, column.quantity))
    for entry in entries:
        if entry.value is not None:
            yield entry.dims, entry.value


def _numbers(spec: TableSpec, chosen: Shown) -> tuple[dict[tuple[Key, Place], list[float]], list[Record]]:
    """The numbers of every cell, and the records that have one or diverged."""
    numbers: dict[tuple[Key, Place], list[float]] = {}
    told, seen = [], set[Hashable]()
    for record in chosen.records:
        cells = list(_numbers_of(spec, chosen, record)) if record.status == "finished" else []
        for place, column, value in cells:
            if column.over is None:
                chosen.take_apart(f"table {spec.title!r}", seen, record, place)
            numbers.setdefault(place, []).append(value)
        told += [record] if cells or record.status == "diverged" else []
    return numbers, told


def _numbers_of(spec: TableSpec, chosen: Shown, record: Record) -> Iterator[tuple[tuple[Key, Place], Column, float]]:
    """The numbers of a record with their cells and columns: those whose dimensions are given, or keys of the table."""
    for index, column in enumerate(spec.columns):
        needed = {key for key in (column.each, column.over) if key is not None and not of_record(key)}
        fixed = resolve(record, column.at)
        for dims, value in _readings(column, record):
            rest = free_dims(dims, fixed, (*spec.rows, *needed))
            if rest is not None and needed <= rest.keys():
                each = None if column.each is None else chosen.value(column.each, record, dims)
                place = (0 if QUANTITY in spec.rows else index, each)
                yield (chosen.key(spec.rows, record, dims, index), place), column, value


def _diverged(spec: TableSpec, chosen: Shown) -> dict[tuple[Key, Place], int]:
    """How many seeds a cell lacks because they diverged, where the rows are told apart by what a record says of itself."""
    lost: dict[tuple[Key, Place], int] = {}
    for record in chosen.records if all(of_record(key) for key in spec.rows) else ():
        row = chosen.key(spec.rows, record, {})
        for index, column in enumerate(spec.columns):
            if record.status == "diverged" and (column.each is None or of_record(column.each)):
                each = None if column.each is None else chosen.value(column.each, record, {})
                lost[row, (index, each)] = lost.get((row, (index, each)), 0) + 1
    return lost


def _cell(numbers: Sequence[float], lost: int, column: Column, chosen: Shown) -> Cell:
    if column.above is not None and numbers:
        count, n = sum(number > column.above for number in numbers), len(numbers)
        return "{} of {} [{:.2f}, {:.2f}]".format(count, n, *share_interval(count, n))
    over = statistic(numbers, chosen.quantity(column.quantity).digits if column.digits is None else column.digits)
    if over is None:
        return f"{lost} diverged" if lost else MISSING
    return replace(over, scientific=column.scientific, diverged=lost)


def _heading(spec: TableSpec, chosen: Shown, place: Place) -> str:
    column = spec.columns[place[0]]
    if column.each is None:
        return "value" if QUANTITY in spec.rows else chosen.heading(column)
    value = "value" if place[1] is None else chosen.text(column.each, place[1])
    told = len(spec.columns) > 1 and QUANTITY not in spec.rows
    return f"{chosen.heading(column)}, {value}" if told else value


def _cited(spec: TableSpec, chosen: Shown, row: Key) -> tuple[str, str] | None:
    """The published figures of a row and their sources: of the arm, or of the specification, at the row's dimensions."""
    keys = dict(zip(spec.rows, row, strict=True))
    dims = {key: value for key, value in keys.items() if not of_record(key) and key != QUANTITY and value is not None}
    figures = spec.published if isinstance(spec.published, tuple) else ()
    if spec.published is True:
        of_arm = {key: value for key, value in keys.items() if of_record(key)}
        arms = (record for record in chosen.records if of_arm == {key: chosen.value(key, record, {}) for key in of_arm})
        figures = next((chosen.published(record) for record in arms), ())
    cited = [figure for figure in figures if figure.at == dims]
    if not cited:
        return None
    sources = dict.fromkeys(cite(entry.source, entry.where) for entry in cited)
    return "; ".join(entry.text for entry in cited), "; ".join(sources)
