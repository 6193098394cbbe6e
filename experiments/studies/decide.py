"""Seeds for claims that are undecided: added look by look, by the plan of leadline.experiments.records.sequential."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from leadline.experiments.config.study import Arm, Study
from leadline.experiments.records.portable import portable_study
from leadline.experiments.records.record import Record
from leadline.experiments.records.sequential import SeedPlan, seeds_of_look
from leadline.experiments.records.verdict import verdicts
from leadline.experiments.runtime.errors import UserError

MOST_SEEDS = 30  # where neither the study nor the command says so


def with_plan(study: Study, recorded: Study | None, limit: int | None, *, decide: bool) -> Study:
    """A study with the number of seeds that its looks are planned for: that of its file, of its records, or of the command.

    Every look spends a part of the error of all, so that a plan stays with its records, also in runs that add no seeds.

    Args:
        study: of a configuration.
        recorded: as it was run before; None where it was not.
        limit: of the command; None: MOST_SEEDS.
        decide: whether seeds are added.

    Raises:
        UserError: for a limit, or a number in the file, that differs from what was planned, and for a limit that is below the
            number of seeds.
    """
    if study.exact is not None:
        return study
    before = recorded.most_seeds if recorded is not None and recorded.seeds == study.seeds else None
    if before is not None and study.most_seeds not in (None, before):
        changed = f"{study.study}: most_seeds = {study.most_seeds}, and its looks are planned for {before} seeds"
        raise UserError(f"{changed}; set {before} or leave it out, or lock the study again with other seeds")
    planned = study.most_seeds or before
    if limit is not None and planned not in (None, limit):
        raise UserError(f"--limit {limit}: the looks at {study.study} are planned for {planned} seeds; leave --limit out")
    seeds = len(study.seeds)
    if limit is not None and limit < seeds:
        raise UserError(f"--limit {limit}: {study.study} has {seeds} seeds already; give a larger limit")
    return study.model_copy(update={"most_seeds": planned or (limit or max(MOST_SEEDS, seeds) if decide else None)})


def looks(
    study: Study, arms: Sequence[Arm], recorded: Callable[[], Sequence[Record]], tell: Callable[[str], None]
) -> Iterator[tuple[list[Arm], list[int]]]:
    """What is to be trained for each look: the arms of the claims that are undecided then, and seeds.

    Args:
        study: with a plan (`with_plan`).
        arms: that run. A claim gets seeds if all of its arms are among them.
        recorded: reads the records, anew for each look, for which the caller trains what the one before asked for.
        tell: hears what is undecided, and what a look costs.
    """
    plan, described = SeedPlan(len(study.seeds), study.most_seeds), portable_study(study)
    names = {arm.name for arm in arms}
    for number in plan.looks()[1:]:
        records = recorded()
        open_claims = [verdict for verdict in verdicts({study.study: described}, records) if verdict.more_seeds]
        undecided = [verdict for verdict in open_claims if names.issuperset(verdict.arms)]
        if not undecided:
            if open_claims:
                ids = ", ".join(verdict.id for verdict in open_claims)
                tell(f"{study.study}: undecided, and not all of their arms run: {ids}")
            return
        chosen = _with_starts(arms, {name for verdict in undecided for name in verdict.arms})
        seeds = seeds_of_look(study.seeds, study.explored, number)
        claims = ", ".join(verdict.id for verdict in undecided)
        tell(f"{study.study}: undecided: {claims}; {_cost(chosen, seeds, records)}")
        yield chosen, seeds


def _with_starts(arms: Sequence[Arm], names: set[str]) -> list[Arm]:
    """The arms of these names, and those that they start from."""
    by_name = {arm.name: arm for arm in arms}
    waiting = list(names)
    while waiting:
        start = by_name[waiting.pop()].start
        if start is not None and start.arm not in names:
            names = names | {start.arm}
            waiting.append(start.arm)
    return [arm for arm in arms if arm.name in names]


def _cost(arms: Sequence[Arm], seeds: Sequence[int], records: Sequence[Record]) -> str:
    """`3 arms with 15 seeds: 15 models to train, about 0:04:10`, at the time that their models have taken so far."""
    names = {arm.name for arm in arms}
    trained = [record for record in records if record.arm in names]
    models = len(names) * len(seeds) - sum(record.seed in seeds for record in trained)
    left = timedelta(seconds=round(models * sum(record.seconds for record in trained) / max(1, len(trained))))
    arms_text, models_text = (
        f"{number} {name}{'s' if number != 1 else ''}" for number, name in ((len(names), "arm"), (models, "model"))
    )
    return f"{arms_text} with {len(seeds)} seeds: {models_text} to train, about {left}"
