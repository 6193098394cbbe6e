"""Damage to each kind of file that a study leaves: flipped bits, parts that are gone, doubled or cut off."""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from leadline.experiments.data import source
from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.data.text.split import split
from leadline.experiments.data.text.tokens import token_files
from leadline.experiments.publish.export import pack
from leadline.experiments.records.store import read_records, read_studies
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training import checkpoint
from leadline.tokenization.formats.saving import load
from tests.experiments.synthetic_records import bits
from tests.faults.mutation import damaged
from tests.faults.registry import Trial
from tests.faults.study import Workshop

CASES = 40  # of a trial


def _cases(paths: list[Path], random: Random) -> Iterator[Path]:
    """One of the files after the other with a damage, which is mended after each case."""
    for _ in range(CASES):
        path = random.choice(paths)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, random))
        yield path
        path.write_bytes(whole)


def _content(results: Path) -> tuple[dict[Any, Any], list[str]]:
    """What is read of records, and what is said of those that are not."""
    stored, notes = read_records(results)
    return {
        (entry.record.arm, entry.record.seed): (entry.record, bits(entry.curve().values), bits(entry.arrays()))
        for entry in stored
    }, notes


def records(workshop: Workshop, folder: Path, random: Random) -> Trial:
    results = shutil.copytree(workshop.whole, folder / "results")
    expected, _ = _content(results)
    lost = []
    for path in _cases(sorted(results.glob("mine/*/s*/*.*")), random):
        intact, notes = _content(results)
        named = len(notes) == 1 and str(path) in notes[0] and "\n" not in notes[0]
        if not named or len(intact) != len(expected) - 1 or any(intact[key] != expected[key] for key in intact):
            lost.append(f"{path.name}: {notes}")
    return Trial(CASES, lost)


def packed(workshop: Workshop, folder: Path, random: Random) -> Trial:
    pack(workshop.whole, "mine", folder, {"sink_rate"})
    expected, _ = _content(folder)
    lost = []
    for path in _cases([path for path in (folder / "mine").iterdir() if path.name != "study.json"], random):
        intact, notes = _content(folder)
        if (intact != expected) if not notes else bool(intact or str(path) not in notes[0]):
            lost.append(f"{path.name}: {notes}")
    return Trial(CASES, lost)


def studies(workshop: Workshop, folder: Path, random: Random) -> Trial:
    results = shutil.copytree(workshop.whole, folder / "results")
    return Trial(
        CASES, [line for path in _cases([results / "mine" / "study.json"], random) for line in _unnamed(path, results)]
    )


def _unnamed(path: Path, results: Path) -> list[str]:
    try:
        read_studies(results)
    except UserError as error:
        return [] if str(path) in str(error) and "\n" not in str(error) else [str(error)]
    return [f"{path}: the damage was not noticed"]


def checkpoints(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """The last checkpoint of a run that was stopped; at the end the run goes on with one that stays damaged."""
    results = _stopped(workshop, folder)
    (group,) = results.glob("mine/.group-*")
    last, notes = checkpoint.latest(group)
    if last is None:
        return Trial(0, notes)
    files = [path for path in (group / str(last)).rglob("*") if path.is_file() and path.stat().st_size]
    files, lost = sorted([*files, *[group / f"manifest-{last}.json"] * len(files)]), []
    before = max(int(path.name) for path in group.glob("[0-9]*") if int(path.name) < last)
    for path in _cases(files, random):
        step, notes = checkpoint.latest(group)
        if step != before or len(notes) != 1 or str(group / str(last)) not in notes[0]:
            lost.append(f"{path.relative_to(results)}: step {step}: {notes}")
    path = random.choice(files)
    path.write_bytes(damaged(path.read_bytes(), random))
    return Trial(CASES + 1, [*lost, *workshop.goes_on(results)])


def _stopped(workshop: Workshop, folder: Path) -> Path:
    """The results of a run that was stopped with two checkpoints."""
    for number in range(9):
        results = folder / f"results{number}"
        command = workshop.begin(results)
        while command.running() and len(list(results.glob("mine/.group-*/manifest-*.json"))) < 2:
            time.sleep(0.005)
        if command.running():
            command.signal(signal.SIGTERM)
        if command.ended().code == 130 and len(list(results.glob("mine/.group-*/manifest-*.json"))) == 2:
            return results
    raise RuntimeError("no run could be stopped between two checkpoints")


def tokens(workshop: Workshop, folder: Path, random: Random) -> Trial:
    cache = shutil.copytree(workshop.whole / source.CACHE, folder / "cache")
    divided = split(text_documents([workshop.folder / "corpus"]), 0.3)
    (saved,) = cache.glob("tokenizer-*")
    read = lambda: token_files(divided, load(saved), cache)  # noqa: E731
    expected = {side: np.array(getattr(read(), side)) for side in ("train", "held_out")}  # no maps of files that are damaged
    paths = sorted(cache.glob("tokens-*"))
    names, lost = [path.name for path in paths], []
    for path in _cases(paths, random):
        reread = read()
        same = all(np.array_equal(getattr(reread, side), ids) for side, ids in expected.items())
        if not same or sorted(entry.name for entry in cache.glob("*tokens-*")) != names:
            lost.append(path.name)
    return Trial(CASES, lost)


def tokenizers(workshop: Workshop, folder: Path, random: Random) -> Trial:
    cache = shutil.copytree(workshop.whole / source.CACHE, folder / "cache")
    (saved,) = cache.glob("tokenizer-*")
    digest, lost = load(saved).digest(), []
    for path in _cases(sorted(saved.iterdir()), random):
        if complaint := _complaint(lambda: load(saved).digest() == digest, saved):
            lost.append(f"{path.name}: {complaint}")
    return Trial(CASES, lost)


def _complaint(read: Callable[[], bool], named: Path) -> str:
    try:
        return "" if read() else "it reads as another one"
    except ValueError as error:
        return "" if str(named) in str(error) else str(error)


def programs(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """One compiled program is damaged; it is compiled again."""
    kept = shutil.copytree(workshop.whole.parent / "programs", folder / "programs")
    path = random.choice(sorted(kept.glob("*-cache")))
    path.write_bytes(damaged(path.read_bytes(), random))
    return Trial(1, workshop.goes_on(folder / "results", kept))
