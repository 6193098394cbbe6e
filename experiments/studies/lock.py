"""`ledger.lock`: claims, thresholds, arms and seeds, frozen before the runs that decide them.

Each line of the file holds a claim of a study that trains, and a digest of what its verdict depends on besides the records.
What is computed without chance has no seeds to choose, and is not locked.
"""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from leadline.experiments.config.claim import Claim
from leadline.experiments.config.load import arms_of
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.records.arms import judged_seeds, matches, planned_arm, recorded_arm
from leadline.experiments.records.json_file import line, sha256, write_whole
from leadline.experiments.records.provenance import arm_digest, non_default_settings
from leadline.experiments.records.record import Record, begun_at
from leadline.experiments.runtime.errors import UserError

# Where a statement comes from, and its correction, which decide nothing.
CITATION = ("source", "where", "published", "shown_at", "erratum")
Digests = Mapping[str, str]  # by "study/claim"


def digests(studies: Iterable[Study]) -> dict[str, str]:
    """The digest of every claim of the studies that train."""
    locked = {}
    for study in studies:
        if study.exact is None:
            arms = arms_of(study.model_copy(update={"only": ()}), Path())  # of a part that was run alone, too
            locked |= {f"{study.study}/{claim.id}": _digest(claim, study, arms) for claim in study.claims}
    return locked


def _digest(claim: Claim, study: Study, arms: Sequence[Arm]) -> str:
    selectors = {name: study.selectors[name] for name in claim.selectors()}
    settings = [(arm, planned_arm(study, arm)) for arm in arms]
    compared = [arm for arm, there in settings if there and any(matches(selector, there) for selector in selectors.values())]
    said = {key: value for key, value in non_default_settings(claim).items() if key not in CITATION}
    seeds = {"seeds": study.seeds, "most_seeds": study.most_seeds, "explored": study.explored}
    of_arms = sorted(arm_digest(arm, None) for arm in compared)
    content = {"claim": said, "selectors": selectors, "needs": study.needs, **seeds, "arms": of_arms}
    return sha256(line(content).encode())[:16]


def write_lock(path: Path, locked: Digests) -> None:
    """Writes digests, one a line, sorted. UserError if the file cannot be written."""
    try:
        write_whole(path, (json.dumps(dict(sorted(locked.items())), indent=1) + "\n").encode())
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error


def read_lock(path: Path) -> Digests:
    """The digests of a lock file. UserError if it cannot be read, or is none."""
    try:
        return _parsed(path.read_bytes())
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path}: there is no lock of claims ({reason}); write one with leadline lock CONFIG") from error
    except ValueError as error:
        remedy = "restore it from version control, or delete it and lock every study again"
        raise UserError(f"{path}: this is no lock of claims ({error}); {remedy}") from error


def locked_since(path: Path, digest: str) -> datetime | None:
    """When a digest was committed to a lock file for the first time; None where it was not, or where there is no repository."""
    words = ["git", "-C", str(path.absolute().parent), "log", "--reverse", "--format=%cI", f"-S{digest}", "--", path.name]
    try:
        dates = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    except FileNotFoundError:  # no git on this machine
        return None
    return datetime.fromisoformat(dates[0]) if dates else None


def repeated(study: Study, records: Iterable[Record]) -> Iterator[str]:
    """Arms of a study whose models another study has on record, with the seeds: they confirm nothing that was seen there.

    Args:
        study: to be run.
        records: of all studies.
    """
    known: dict[tuple[str, str], list[Record]] = {}
    seeds = judged_seeds(study)
    for record in records:
        if record.study != study.study and record.seed in seeds and record.steps:
            known.setdefault((record.study, record.arm_hash), []).append(record)
    others = [(of_arm, recorded_arm(study, of_arm[0])) for of_arm in known.values()]
    for arm in [] if study.exact is not None else arms_of(study.model_copy(update={"only": ()}), Path()):
        planned = planned_arm(study, arm)
        for of_arm, trained in others:
            if planned and trained and (planned.leaves, planned.started) == (trained.leaves, trained.started):
                same = ", ".join(str(record.seed) for record in sorted(of_arm, key=lambda record: record.seed))
                yield f"{study.study}: {arm.name}: {of_arm[0].study} has these models on record, with the seeds {same}"


def _parsed(content: bytes) -> Digests:
    locked = json.loads(content)
    if not isinstance(locked, dict) or not all(isinstance(digest, str) for digest in locked.values()):
        raise ValueError("no table of digests")  # of the file, not of an argument
    return locked


def problems(
    locked: Digests, studies: Iterable[Study], records: Sequence[Record], since: Callable[[str], datetime | None]
) -> Iterator[str]:
    """What is not as it was frozen: claims, seeds, and the order of lock and runs.

    Args:
        locked: the digests of the lock.
        studies: as they are recorded.
        records: of these studies.
        since: when a digest was committed; None where it was not.
    """
    for study in studies:
        if study.exact is not None:
            continue
        of_study = [record for record in records if record.study == study.study]
        began = min(map(begun_at, of_study), default=None)
        now = digests([study])
        for key, digest in now.items():
            committed = since(digest)
            if locked.get(key) != digest:
                yield f"{key}: {'changed since it was locked' if key in locked else 'not locked'}"
            elif committed is None:
                yield f"{key}: the lock is not committed"
            elif began is not None and began < committed:
                yield f"{key}: run on {began:%Y-%m-%d %H:%M}, before it was locked on {committed:%Y-%m-%d %H:%M}"
        for key in sorted(locked.keys() - now.keys()):
            if key.startswith(f"{study.study}/"):
                yield f"{key}: locked, and the study has no such claim"
        for seed in sorted({record.seed for record in of_study if record.seed in study.explored}):
            yield f"{study.study}: seed {seed} is one that the recipe was chosen on"
