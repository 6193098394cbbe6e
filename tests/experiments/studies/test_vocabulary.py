"""The study of vocabularies at toy size: what is measured, tables, figure, claims; weights and their tokenizer."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.arms import structure
from experiments.build import training_flops
from experiments.config.study import VocabularyStudy
from experiments.data.source import open_source, vocabulary_size
from experiments.errors import UserError
from experiments.evidence import judge
from experiments.load import arms_of, load_studies
from experiments.progress import Progress
from experiments.publish.table import MISSING
from experiments.record import read_records
from experiments.studies.run import planned, run
from experiments.studies.vocabulary import STUDY, VOCABULARY, families, table, vocabulary_drawings
from experiments.studies.vocabulary_measure import VocabularyMeasurer
from tests.experiments.synthetic_records import measured, record
from tokenization.saving import load

CLAIMS = {claim.id: claim for claim in VOCABULARY}
CONFIG = Path("configs/vocabulary.toml")
TOY = """
study = "vocabulary"
seeds = [0]
[model]
layers = 1
width = 8
heads = 2
hidden = 8
position = {{ kind = "rope", base = 100.0 }}
[data]
kind = "text"
corpus = ["{text}"]
length = 8
held_out = 0.3
[train]
steps = 2
batch = 2
learning_rate = 1e-2
[measure]
every = 1
sequences = 2
bytes = 100
[arms.byte]
[arms.bpe_280]
data.tokenizer = {{ kind = "bpe", vocabulary = 280 }}
[arms.bpe_290]
data.tokenizer = {{ kind = "bpe", vocabulary = 290 }}
[arms.word_20]
data.tokenizer = {{ kind = "word", vocabulary = 20 }}
"""


@pytest.fixture(scope="module")
def ran(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("vocabulary")
    text = folder / "text.txt"
    text.write_text("".join(f"the cat number {i} sat on the mat with {i * i} dogs\n" for i in range(60)))
    (folder / "toy.toml").write_text(TOY.format(text=text))
    with Progress(Console(quiet=True)) as progress:
        run(planned(folder / "toy.toml", []), folder / "results", progress)
    return folder


pytestmark = pytest.mark.usefixtures("in_use")


def test_every_arm_of_the_configuration_takes_the_same_flops() -> None:
    (study,) = load_studies(CONFIG, [])
    assert isinstance(study, VocabularyStudy)
    flops = [
        arm.train.steps * arm.train.batch * arm.data.length * training_flops(structure(arm, vocabulary_size(arm.data))[0], 128)
        for arm in arms_of(study, CONFIG)
    ]
    np.testing.assert_allclose(flops, 2e12, rtol=5e-3)


def test_bits_are_of_the_same_bytes(ran: Path) -> None:
    records = [entry.record for entry in read_records(ran / "results")]
    byte = next(one for one in records if one.arm == "byte" and one.seed == 0)
    values = {name: found.value for name, found in byte.measurements.items()}
    assert values["bytes_per_token"] == pytest.approx(1, abs=2e-3)  # EOS has no bytes
    assert values["bits_per_byte"] == pytest.approx((values["loss"] or 0) / math.log(2))
    merged = next(one for one in records if one.arm == "bpe_280" and one.seed == 0)
    assert (merged.measurements["bytes_per_token"].value or 0) > 1.5
    assert merged.data["tokenizer"] == "bpe"


def test_word_level_has_unknown_words_and_no_bits(ran: Path) -> None:
    records = [entry.record for entry in read_records(ran / "results") if entry.record.arm == "word_20"]
    assert [one.measurements["bits_per_byte"].value for one in records] == [None]
    assert all((one.measurements["unknown_prose"].value or 0) > 0.1 for one in records)


def test_table_and_figure(ran: Path) -> None:
    stored = read_records(ran / "results")
    records = [entry.record for entry in stored]
    found = table(records)
    assert [row[0] for row in found.rows] == ["word_20", "byte", "bpe_280", "bpe_290"]
    assert found.rows[0][1] == MISSING
    assert families(records) == {"bpe": ["bpe_280", "bpe_290"]}
    assert [drawing.name for drawing in vocabulary_drawings(stored)] == ["bits_per_byte"]


def test_the_checkpoint_has_its_tokenizer_and_refuses_another(ran: Path, tmp_path: Path) -> None:
    first, second = (next((ran / "results" / STUDY).glob(f"bpe_{size}-*")) / "s0" / "checkpoint" for size in (280, 290))
    assert load(first / "tokenizer").vocabulary_size == 280
    assert load(second / "tokenizer").vocabulary_size == 290
    results = tmp_path / "results"
    shutil.copytree(ran / "results", results)
    folder = next((results / STUDY).glob("bpe_280-*")) / "s0"
    (folder / "record.json").unlink()
    manifest = folder / "checkpoint" / "manifest-2.json"
    manifest.write_text(manifest.read_text().replace(load(first / "tokenizer").digest(), "0" * 64))
    with Progress(Console(quiet=True)) as progress, pytest.raises(UserError, match="trained with another tokenizer"):
        run(planned(ran / "toy.toml", []), results, progress)


def test_too_little_held_out_text_is_said_first(ran: Path, tmp_path: Path) -> None:
    (study,) = load_studies(ran / "toy.toml", ["measure.bytes=100000"])
    arm = arms_of(study, ran / "toy.toml")[0]  # type: ignore[arg-type]
    with pytest.raises(UserError, match="and the held-out text has"):
        VocabularyMeasurer().batches(open_source(arm.data, tmp_path), arm.measure)  # type: ignore[arg-type]


def _measured(bits: float, seed: int, size: int) -> dict[str, object]:
    return measured({"bits_per_byte": bits * (1 + seed / 1e4), "vocabulary": size}, "1")


@pytest.mark.parametrize(("bits", "verdict"), [((3.0, 2.5, 2.8), "holds"), ((2.4, 2.5, 2.8), "fails")])
def test_the_claim_of_an_optimum(bits: tuple[float, ...], verdict: str) -> None:
    records = [
        record(
            STUDY,
            f"bpe_{size}",
            seed,
            measurements=measured({"bits_per_byte": value * (1 + seed / 1e4), "vocabulary": size}, "1"),
        )
        for size, value in zip((300, 400, 500), bits, strict=True)
        for seed in range(3)
    ]
    assert judge(CLAIMS["tao-optimum"], records).verdict == verdict


@pytest.mark.parametrize(("bits", "verdict"), [(3.0, "holds"), (2.0, "fails")])
def test_the_claim_that_tokens_pay(bits: float, verdict: str) -> None:
    records = [
        record(STUDY, arm, seed, measurements=_measured(value, seed, 9))
        for arm, value in (("byte", bits), ("bpe_300", 2.5))
        for seed in range(3)
    ]
    assert judge(CLAIMS["tokens-pay"], records).verdict == verdict
