"""Studies that train nothing, from their configuration to their records."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from leadline.experiments.config.exact import BaseBound, Multilingual, Precision
from leadline.experiments.config.study import Study
from leadline.experiments.records.measurement import reading, value_of
from leadline.experiments.records.provenance import Provenance
from leadline.experiments.records.store import read_records, write_study
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.studies.run import point_of, run_exact

ORIGIN = Provenance(
    commit="0" * 40, dirty=False, versions={"jax": "0.0.0"}, device={"platform": "cpu", "kind": "none", "count": 1}
)
BOUND = Study(study="bases", exact=BaseBound(head_dims=(32,), lengths=(64, 256, 1024)))


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


def points(results: Path) -> dict[str, dict]:
    records, notes = read_records(results)
    assert not notes
    return {stored.record.arm: point_of(stored) for stored in records}


def test_what_is_on_record_is_not_computed_again(tmp_path: Path) -> None:
    arms = ["d32-64", "d32-256", "d32-1k", "d32-growth"]
    assert ran(BOUND, tmp_path) == (arms, 0)
    assert ran(BOUND, tmp_path) == (arms, 4)
    further = BOUND.model_copy(update={"exact": BaseBound(head_dims=(32,), lengths=(64, 256, 1024), every=2)})
    assert ran(further, tmp_path)[1] == 0
    assert len(read_records(tmp_path)[0]) == 8


def test_a_record_says_what_was_computed(tmp_path: Path) -> None:
    ran(BOUND, tmp_path)
    record = next(stored.record for stored in read_records(tmp_path)[0] if stored.record.arm == "d32-1k")
    assert (record.label, record.seed, record.steps, record.training_length) == ("d = 32, 1,024 tokens", 0, 0, None)
    assert (record.config["kind"], record.config["head_dim"], record.config["length"]) == ("base_bound", 32, 1024)
    assert value_of(record, "smallest_base") == pytest.approx(5.8e4, rel=0.01)


@pytest.mark.parametrize("stop", ["256 tokens", "1,024 of 1,024"])
def test_a_stopped_run_goes_on_to_the_same_numbers(tmp_path: Path, stop: str) -> None:
    ran(BOUND, tmp_path / "whole")
    with pytest.raises(Interrupted, match=r"bases: stopped (before|within) d32-"):
        ran(BOUND, tmp_path / "stopped", stop)
    assert 0 < len(read_records(tmp_path / "stopped")[0]) < 4
    ran(BOUND, tmp_path / "stopped")
    whole, resumed = points(tmp_path / "whole"), points(tmp_path / "stopped")
    for arm, point in whole.items():
        assert point.keys() == resumed[arm].keys()
        for key, array in point.items():
            np.testing.assert_array_equal(array, resumed[arm][key])


def test_a_damaged_record_is_computed_again(tmp_path: Path) -> None:
    ran(BOUND, tmp_path)
    path = next(tmp_path.glob("bases/d32-256-*/s0/record.json"))
    path.write_bytes(path.read_bytes()[:-40])
    assert ran(BOUND, tmp_path)[1] == 3
    assert reading("smallest_base") in points(tmp_path)["d32-256"]


def test_every_kind_is_run(tmp_path: Path) -> None:
    for exact in (Precision(lengths=(64,)), Multilingual(vocabularies=(320,), exponents=(1.0,))):
        arms, _ = ran(Study(study=exact.kind, exact=exact), tmp_path)
        assert {stored.record.arm for stored in read_records(tmp_path, exact.kind)[0]} == set(arms)


def test_what_a_run_keeps_names_files_by_their_content(tmp_path: Path) -> None:
    texts = {"eng": "One line.\nAnother line.\n" * 9, "deu": "Eine Zeile.\nNoch eine Zeile.\n" * 9}
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        for language, text in texts.items():
            (tmp_path / folder / f"{language}.txt").write_text(text)
    described, results = {}, tmp_path / "results"
    for folder, recorded in (("here", 0), ("here", 1), ("there", 1)):
        paths = [str(tmp_path / folder / f"{language}.txt") for language in texts]
        fair = Study(study="fair", exact=Multilingual(vocabularies=(264,), exponents=(1.0,), texts=tuple(paths)))
        write_study(results, fair)
        assert ran(fair, results)[1] == recorded
        described[folder] = (results / "fair" / "study.json").read_text()
    assert described["here"] == described["there"]
    sums = [f"{language}.txt sha256:{sha256(text.encode()).hexdigest()}" for language, text in texts.items()]
    assert all(f'"{name}"' in described["here"] for name in sums)
    assert not any(str(tmp_path) in path.read_text() for path in results.rglob("*.json"))


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="reference = 'tlh' is none of the texts"):
        ran(Study(study="fair", exact=Multilingual(vocabularies=(320,), exponents=(1.0,), reference="tlh")), tmp_path)
