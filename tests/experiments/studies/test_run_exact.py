"""Studies that train nothing, from their configuration to their records."""

import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from leadline.experiments.config.exact import BaseBound, Multilingual
from leadline.experiments.config.study import Study
from leadline.experiments.records.measurement import value_of
from leadline.experiments.records.provenance import Provenance
from leadline.experiments.records.store import read_records, write_study
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.studies.run_exact import point_of, run_exact

ORIGIN = Provenance(
    commit="0" * 40, dirty=False, versions={"jax": "0.0.0"}, device={"platform": "cpu", "kind": "none", "count": 1}
)
BOUND = Study(study="bases", exact=BaseBound(head_dims=(32,), lengths=(64, 256, 1024)))
ARMS = ["d32-64", "d32-256", "d32-1k", "d32-growth"]


class Stopping(Progress):
    """Asks for a stop as soon as it hears a text."""

    def __init__(self, text: str, interruption: Interruption) -> None:
        super().__init__(Console(quiet=True))
        self.text, self.interruption = text, interruption

    def reach(self, done: int, status: str) -> None:
        self.interruption.requested |= self.text in status
        super().reach(done, status)


def ran(study: Study, results: Path, stop: str = "never") -> tuple[list[str], int]:
    """The arms of a run, and how many were on record."""
    with Interruption() as interruption, Stopping(stop, interruption) as progress:
        digests, already = run_exact(study, results, ORIGIN, progress, interruption)
    return [arm for _, arm in digests], already


def assert_equal_points(results: Path, whole: Path) -> None:
    for ours, theirs in zip(read_records(results)[0], read_records(whole)[0], strict=True):
        point, expected = point_of(ours), point_of(theirs)
        assert (ours.record.arm, point.keys()) == (theirs.record.arm, expected.keys())
        for key, array in expected.items():
            np.testing.assert_array_equal(point[key], array)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run; tests that write copy them first."""
    results = tmp_path_factory.mktemp("whole") / "results"
    assert ran(BOUND, results) == (ARMS, 0)
    return results


def test_what_is_on_record_is_not_computed_again_unless_it_is_damaged(whole: Path, tmp_path: Path) -> None:
    results = shutil.copytree(whole, tmp_path / "results")
    assert ran(BOUND, results) == (ARMS, 4)
    path = next(results.glob("bases/d32-256-*/s0/record.json"))
    path.write_bytes(path.read_bytes()[:-40])
    assert ran(BOUND, results) == (ARMS, 3)
    assert_equal_points(results, whole)
    further = BOUND.model_copy(update={"exact": BaseBound(head_dims=(32,), lengths=(64, 256, 1024), every=2)})
    assert ran(further, results)[1] == 0
    assert len(read_records(results)[0]) == 8


def test_a_record_says_what_was_computed(whole: Path) -> None:
    record = next(stored.record for stored in read_records(whole)[0] if stored.record.arm == "d32-1k")
    assert (record.label, record.seed, record.steps, record.training_length) == ("d = 32, 1,024 tokens", 0, 0, None)
    assert (record.config["kind"], record.config["head_dim"], record.config["length"]) == ("base_bound", 32, 1024)
    assert value_of(record, "smallest_base") == pytest.approx(5.8e4, rel=0.01)


@pytest.mark.parametrize("stop", ["256 tokens", "1,024 of 1,024"])
def test_a_stopped_run_goes_on_to_the_same_numbers(whole: Path, tmp_path: Path, stop: str) -> None:
    with pytest.raises(Interrupted, match=r"bases: stopped (before|within) d32-"):
        ran(BOUND, tmp_path, stop)
    assert 0 < len(read_records(tmp_path)[0]) < 4
    ran(BOUND, tmp_path)
    assert_equal_points(tmp_path, whole)


def test_what_a_run_keeps_names_files_by_their_content(tmp_path: Path) -> None:
    texts = {"eng": "One line.\nAnother line.\n" * 9, "deu": "Eine Zeile.\nNoch eine Zeile.\n" * 9}
    described, results = set(), tmp_path / "results"
    for folder, recorded in (("here", 0), ("here", 1), ("there", 1)):
        paths = [tmp_path / folder / f"{language}.txt" for language in texts]
        (tmp_path / folder).mkdir(exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text)
        fair = Study(study="fair", exact=Multilingual(vocabularies=(264,), exponents=(1.0,), texts=tuple(map(str, paths))))
        write_study(results, fair)
        assert ran(fair, results)[1] == recorded
        described.add((results / "fair" / "study.json").read_text())
    (description,) = described
    for language, text in texts.items():
        assert f'"{language}.txt sha256:{sha256(text.encode()).hexdigest()}"' in description
    assert not any(str(tmp_path) in path.read_text() for path in results.rglob("*.json"))
