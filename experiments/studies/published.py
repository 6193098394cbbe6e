"""Published models measured from the command line: what is not on record yet is computed, and what there is shown."""

from dataclasses import dataclass
from pathlib import Path

from leadline.experiments.config.study import Study
from leadline.experiments.publish.table import Table
from leadline.experiments.publish.tables import table
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.record import StoredRecord
from leadline.experiments.records.store import read_records, read_studies, write_study
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.studies.published_study import Wanted, planned_study
from leadline.experiments.studies.published_tables import TABLES
from leadline.experiments.studies.run_exact import EXACT, run_exact
from leadline.experiments.training.session import opened

AND = " && "  # between commands


@dataclass(frozen=True)
class MeasuredModel:
    """The measurements of a published model, those of this command and those on record before."""

    study: Study
    stored: tuple[StoredRecord, ...]  # of what is wanted
    computed: int  # tables that have a new record
    recorded: int  # tables whose records were there

    @property
    def measurements(self) -> list[Measurement]:
        return [entry for stored in self.stored for entry in stored.record.measurements]

    @property
    def tables(self) -> list[Table]:
        """The tables of the study that have rows."""
        tables = (table(spec, self.study, self.stored) for spec in self.study.tables)
        return [of_spec for of_spec in tables if of_spec.rows]

    def summary(self, results: Path) -> str:
        """One line: where it is recorded, what was computed, and what makes the page."""
        counts = f"{self.computed} table{'' if self.computed == 1 else 's'} computed, {self.recorded} on record before"
        return f"{results / self.study.study}: {counts}; leadline report {results} makes the page"


def measured_published(wanted: Wanted, results: Path, progress: Progress) -> MeasuredModel:
    """Measures a published model, and records what is not on record yet.

    Args:
        wanted: the model, and what is measured.
        results: the folder of the records.
        progress: hears of every job.

    Raises:
        UserError: for a model, a setting or a text that cannot be.
        Interrupted: when asked to stop; what is recorded is kept.
    """
    study, notes = planned_study(wanted)
    for note in notes:
        progress.note(note)
    before = {(entry.record.arm, entry.record.arm_hash) for entry in read_records(results, study.study)[0]}
    with Interruption(progress.note) as interruption, opened(results, progress, interruption) as session:
        place = results / study.study / EXACT
        if (claim := session.worker.claim([place])) is None:
            holder = session.worker.holder([place])
            raise UserError(f"{place.parents[1]}: {holder}, is at work here; wait, or choose another folder with --results")
        with claim:
            earlier = read_studies(results).get(study.study)
            whole = with_tables_before(study, earlier)
            write_study(results, whole)
            digests, already = run_exact(study, results, session.origin, progress, interruption)
            if earlier is not None and already == len(digests):  # what was given before gave all of it
                write_study(results, whole.model_copy(update={"command": earlier.command or whole.command}))
    records = read_records(results, study.study)[0]
    stored = tuple(entry for entry in records if digests.get((study.study, entry.record.arm)) == entry.record.arm_hash)
    every = {str(entry.record.config["table"]) for entry in stored}
    new = {str(e.record.config["table"]) for e in stored if (e.record.arm, e.record.arm_hash) not in before}
    return MeasuredModel(study, stored, len(new), len(every - new))


def with_tables_before(study: Study, earlier: Study | None) -> Study:
    """The study with the tables, figures and commands of what was measured before and is not measured now."""
    if earlier is None or {spec.name for spec in earlier.tables} <= {spec.name for spec in study.tables}:
        return study
    specs = {}
    for kind in ("tables", "figures"):
        now = getattr(study, kind)
        kept = [spec for spec in getattr(earlier, kind) if spec.name not in {other.name for other in now}]
        specs[kind] = tuple(sorted((*now, *kept), key=lambda spec: TABLES.index(spec.where["table"])))
    commands = dict.fromkeys(filter(None, (*earlier.command.split(AND), study.command)))
    return study.model_copy(update={**specs, "command": AND.join(commands)})
