"""The study of base and length: end to end at toy size, and its claims on invented numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.errors import UserError
from experiments.evidence import judge
from experiments.load import arms_of, load_studies
from experiments.progress import Progress
from experiments.publish.table import MISSING
from experiments.record import Record, StoredRecord, read_arrays, read_curves, read_records
from experiments.studies import base_length_evidence as evidence
from experiments.studies.base_length_claims import BASE_VS_LENGTH
from experiments.studies.base_length_drawings import base_length_drawings
from experiments.studies.base_length_measure import predicted_reach
from experiments.studies.base_vs_length import length_table, table
from experiments.studies.run import Ran, planned, run
from model.positions.base_bound import similarity_sums
from tests.experiments.synthetic_records import measured, record

pytestmark = pytest.mark.usefixtures("in_use")

CONFIG = """
study = "base_vs_length"
seeds = [0]
[model]
layers = 1
width = 8
heads = 1
hidden = 8
position = { kind = "rope", base = 100.0 }
[data]
kind = "mixed"
corpus = ["CORPUS"]
length = 16
held_out = 0.3
keys = 12
values = 2
[train]
steps = 4
batch = 4
learning_rate = 1e-2
[measure]
every = 2
sequences = 4
tokens = 96
rows = 24
lengths = [16, 24]
last = 8
[sweep]
"model.position.base" = [10.0, 1e4]
[arms.16]
"""


def _config(folder: Path) -> Path:
    corpus = folder / "book.txt"
    corpus.write_text("".join(f"Line {i} of a short book, whose square is {i * i}.\n" for i in range(40)), encoding="utf-8")
    path = folder / "base.toml"
    path.write_text(CONFIG.replace("CORPUS", str(corpus)))
    return path


@pytest.fixture(scope="module")
def ran(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[StoredRecord], Ran]:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("base")
    done = run(planned(_config(folder), ()), folder / "results", Progress(Console(quiet=True)))
    return read_records(folder / "results"), done


def test_bases_share_their_programs(ran: tuple[list[StoredRecord], Ran]) -> None:
    stored, done = ran
    assert done.trained == len(stored) == 2
    assert done.programs == ("initialise", "train", "measure", "measure at 16", "measure at 24")


def test_a_record_holds_every_length_and_bin(ran: tuple[list[StoredRecord], Ran]) -> None:
    own = next(entry for entry in ran[0] if entry.record.arm == "16_base=10.0")
    found = {name: entry.value for name, entry in own.record.measurements.items()}
    edges = {16: [2, 4, 5, 8, 11, 16], 24: [2, 4, 5, 8, 11, 16, 22, 32]}
    for length, upper in edges.items():
        heads = (
            "perplexity",
            "perplexity_windows",
            "perplexity_documents",
            "perplexity_last8",
            "recall_accuracy",
            "reach",
            "accuracy_within",
            "accuracy_beyond",
        )
        assert {f"{head}.{length}" for head in heads} <= set(found)
        # Windows that do not overlap, all of whose targets count, weigh alike.
        assert found[f"perplexity_windows.{length}"] == pytest.approx(found[f"perplexity.{length}"])
        assert [int(name.split(".")[2]) for name in found if name.startswith(f"answers.{length}.")] == upper
        arrays = read_arrays(own.folder)
        answers, recalled = arrays[f"answers_at_distance.{length}"], arrays[f"recalled_at_distance.{length}"]
        assert answers.shape == recalled.shape == (length,)
        assert (recalled <= answers).all()
        assert (answers[::2] == 0).all()  # distances are odd
        assert sum(found[f"answers.{length}.{edge}"] or 0 for edge in upper) == answers.sum() > 0
        assert found[f"recall_accuracy.{length}"] == pytest.approx(recalled.sum() / answers.sum())
        assert found[f"accuracy_within.{length}"] == pytest.approx(recalled[:4].sum() / answers[:4].sum())
    assert found["predicted_reach"] == 4
    assert [row["step"] for row in read_curves(own.folder)] == [0, 2, 4]
    assert {"loss", "recall_loss", "recall_accuracy"} <= set(read_curves(own.folder)[0])


def test_a_reach_beyond_the_length_has_nothing_beyond_it(ran: tuple[list[StoredRecord], Ran]) -> None:
    far = next(entry.record for entry in ran[0] if entry.record.arm == "16_base=10000.0")
    assert "accuracy_beyond.16" not in far.measurements
    rows = {row[1]: row for row in table([entry.record for entry in ran[0]]).rows}
    assert rows["10000"][-2] == MISSING
    assert rows["10"][2] == "4"


def test_the_page_has_tables_figures_and_verdicts(ran: tuple[list[StoredRecord], Ran]) -> None:
    published = ran[1].published
    assert {path.name for path in published.figures} >= {"recall_by_distance.svg", "perplexity_by_base.png"}
    assert {path.name for path in published.tables} >= {"base_vs_length.md", "base_vs_length_lengths.csv"}
    verdicts = {verdict.id: verdict.verdict for verdict in published.verdicts}
    assert verdicts["men-perplexity-flat"] == "mixed"  # one seed
    assert verdicts["men-base-100"] == "not measured"


def test_predicted_reach_is_where_b_m_is_first_negative(tmp_path: Path) -> None:
    path = _config(tmp_path)
    for arm in arms_of(load_studies(path)[0], path):
        base = arm.model.position.base  # pyright: ignore[reportAttributeAccessIssue]
        sums = similarity_sums(base ** -(np.arange(0, 8, 2) / 8), 1000)
        assert predicted_reach(arm) == np.flatnonzero(sums < 0)[0]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("train.batch=3", "train.batch = 3 is odd"),
        ("measure.lengths=[24]", "lacks data.length = 16"),
        ("measure.lengths=[16,32]", "a row of 32 tokens may need 16"),
        ("measure.last=17", "measure.last = 17"),
        ('model.position={kind="alibi"}', "about the base of RoPE"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_studies(_config(tmp_path), [word])


# Invented: perplexity, recall over all, within and beyond the reach, measured reach of base 100 and base 10000.
Row = tuple[float, float, float, float | None, float]
SUPPORTING: tuple[Row, Row] = ((7.1, 0.45, 0.95, 0.3, 32), (7.0, 0.99, 0.99, None, 128))
CONTRARY: tuple[Row, Row] = ((9.0, 0.90, 0.80, 0.95, 128), (7.0, 0.99, 0.99, None, 128))


def _records(rows: tuple[Row, Row], seeds: int = 3) -> list[Record]:
    made = []
    for base, reach, row in zip((100.0, 1e4), (28.0, 474.0), rows, strict=True):
        for seed in range(seeds):
            perplexity, overall, within, beyond, own = (None if v is None else v * (1 + 0.002 * seed) for v in row)
            values = {"perplexity.128": perplexity, "recall_accuracy.128": overall, "accuracy_within.128": within}
            values |= {"reach.128": own, "predicted_reach": reach, "answers.128.64": 100.0, "answers.128.128": 50.0}
            values |= {"accuracy.128.64": within, "accuracy.128.128": within if beyond is None else beyond}
            values |= {} if beyond is None else {"accuracy_beyond.128": beyond}
            config = {"model": {"position": {"base": base}}, "data": {"length": 128, "values": 4}}
            name = f"128_base={base}"
            made.append(record("base_vs_length", name, seed, config=config, measurements=measured(values)))
    return made


@pytest.mark.parametrize("claim", BASE_VS_LENGTH, ids=lambda claim: claim.id)
def test_claims_go_both_ways(claim) -> None:
    assert judge(claim, _records(SUPPORTING)).verdict == "holds"
    assert judge(claim, _records(SUPPORTING, seeds=1)).verdict == "mixed"
    assert judge(claim, []).verdict == "not measured"
    contrary = _records(CONTRARY)
    assert judge(claim, contrary).verdict == "fails"


@pytest.mark.parametrize(
    ("function", "margin"),
    [
        (evidence.perplexity_is_flat, 1.05 - 7.1 / 7.0),
        (evidence.recall_is_not_flat, 0.5 - 0.20 / 0.74),
        (evidence.beyond_is_below_within, 0.65),
        (evidence.reach_is_bounded, 1 - np.log2(32 / 28)),
        (evidence.superficial, min(1.05 - 7.1 / 7.0, 0.5 - 0.05 / 0.74)),
        (evidence.base_100_forgets, 0.5 - 0.05 / 0.70),
    ],
)
def test_margins_are_what_they_say(function: Callable, margin: float) -> None:
    found = function(_records(SUPPORTING, seeds=1))
    assert found.margins == pytest.approx((margin,))
    assert not found.exact


def test_a_seed_that_one_base_lacks_is_left_out() -> None:
    made = [one for one in _records(SUPPORTING) if not (one.seed == 1 and one.config["model"]["position"]["base"] == 1e4)]  # pyright: ignore
    found = evidence.perplexity_is_flat(made)
    assert found is not None
    assert len(found.margins) == 2


def test_tables_and_figures_of_invented_records(tmp_path: Path) -> None:
    made = _records(SUPPORTING)
    assert [row[1] for row in table(made).rows] == ["100", "10000"]
    assert length_table(made).columns == ("length", "base", "perplexity at 128", "recall at 128")
    drawings = base_length_drawings([StoredRecord(tmp_path, one) for one in made])
    assert [drawing.name for drawing in drawings] == ["recall_by_distance", "perplexity_by_base"]
    assert base_length_drawings([]) == []
