"""Which folder of a results folder is meant, and where its tokens are kept."""

from pathlib import Path

from leadline.experiments.data.source import CACHE
from leadline.experiments.records.store import RECORD
from leadline.experiments.runtime.errors import UserError

# Runs that an error lists.
LISTED = 20
# Levels of RESULTS/STUDY/ARM-HASH/sSEED.
LEVELS = 4


def run_folder(folder: Path, arm: str | None = None, seed: int | None = None) -> Path:
    """The folder of a run, at or below a folder.

    Args:
        folder: `results/STUDY/ARM-HASH/sSEED` or any folder above it.
        arm: the name of its arm; None for any.
        seed: None for any.

    Raises:
        UserError: where there is none, or more than one, which are listed.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; leadline run makes results/STUDY/ARM-HASH/sSEED")
    if not (runs := runs_below(folder)):
        raise UserError(
            f"{folder}: no trained run is in it; of packed records, which have no weights, leadline.records makes a table"
        )
    matching = [run for run in runs if _is_of(run.absolute(), arm, seed)]
    if len(matching) == 1:
        return matching[0]
    wanted = ", ".join(f"{name} {value!r}" for name, value in (("arm", arm), ("seed", seed)) if value is not None)
    problem = f"{len(matching)} runs" if matching else "no run"
    listed = "".join(f"\n  {run}" for run in (matching or runs)[:LISTED])
    more = f"\n  and {len(matching or runs) - LISTED} more" if len(matching or runs) > LISTED else ""
    of = f" of {wanted}" if wanted else ""
    raise UserError(f"{folder}: it holds {problem}{of}; name one by its folder, or by arm and seed:{listed}{more}")


def runs_below(folder: Path) -> list[Path]:
    """The folders of runs, the folder itself or below it."""
    return sorted(path.parent for depth in range(LEVELS) for path in folder.glob("*/" * depth + RECORD))


def _is_of(run: Path, arm: str | None, seed: int | None) -> bool:
    name, _, _ = run.parent.name.rpartition("-")
    return arm in (None, name) and (seed is None or run.name == f"s{seed}")


def cache_of(run: Path) -> Path:
    """The cache of the results folder that a run lies in. A run that was copied may have fewer folders above it."""
    return run.absolute().parents[:3][-1] / CACHE
