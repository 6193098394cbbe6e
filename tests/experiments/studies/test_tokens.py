"""The studies of tokens: from their configurations to tables, figures and claims."""

import base64
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.config.study import MultilingualStudy, TokensStudy, WordPieceComparison
from experiments.data.corpus import stdlib_documents
from experiments.errors import UserError
from experiments.evidence import judge
from experiments.identity import provenance
from experiments.interrupt import Interruption
from experiments.progress import Progress
from experiments.record import Record, StoredRecord, read_records
from experiments.studies.multilingual import (
    MULTILINGUAL,
    divided,
    multilingual_drawings,
    run_multilingual,
    shares,
    weighted_pieces,
)
from experiments.studies.multilingual import table as multilingual_table
from experiments.studies.tokens import (
    PROBES,
    STUDY,
    probe_table,
    probed,
    report,
    run_tokens,
    size_table,
    speed_table,
    table,
    texts_of,
)
from experiments.studies.tokens_claims import TOKENS
from experiments.studies.tokens_drawings import tokens_drawings
from experiments.studies.tokens_wordpiece import FREQUENCY, LIKELIHOOD, WAYS, unigram_bits, wordpiece_table
from tests.experiments.synthetic_records import measured, record
from tokenization.byte import ByteTokenizer
from tokenization.wordpiece_training import train_wordpiece

CLAIMS = {claim.id: claim for claim in (*TOKENS, *MULTILINGUAL)}


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """A vocabulary in the files of a published one: the bytes, and "th" and "the"."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    pieces = [bytes([byte]) for byte in range(256)] + [b"th", b"the"]
    lines = [f"{base64.b64encode(piece).decode()} {rank}\n" for rank, piece in enumerate(pieces)]
    (folder / "toy.tiktoken").write_text("".join(lines))
    (folder / "toy.json").write_text(json.dumps({"pat_str": r"\s?\S+|\s+", "special_tokens": {"<|endoftext|>": 258}}))
    return folder


def ran(study: TokensStudy | MultilingualStudy, results: Path) -> int:
    with Interruption() as interruption, Progress(Console(quiet=True)) as progress:
        origin = provenance()
        if isinstance(study, TokensStudy):
            return run_tokens(study, results, origin, progress, interruption)[1]
        return run_multilingual(study, results, origin, progress, interruption)[1]


def stored(results: Path) -> list[StoredRecord]:
    return read_records(results)


def test_every_tokenizer_is_counted_once(tmp_path: Path, ranks: Path) -> None:
    study = TokensStudy(tokenizers={"byte": "byte", "toy": "tiktoken:toy"}, ranks=str(ranks), speed_documents=1)
    assert [ran(study, tmp_path), ran(study, tmp_path)] == [0, 2]
    records = [entry.record for entry in stored(tmp_path)]
    counted = {one.arm: one.measurements["tokens.eng"].value or 0 for one in records}
    english = texts_of("embedded", "eng")["eng"]
    assert counted["byte"] == len(english.encode())
    assert counted["toy"] == counted["byte"] - english.count("th") - english.count("the")


def test_tables_and_figure(tmp_path: Path, ranks: Path) -> None:
    ran(TokensStudy(tokenizers={"toy": "tiktoken:toy", "byte": "byte"}, ranks=str(ranks), speed_documents=1), tmp_path)
    records = [entry.record for entry in stored(tmp_path)]
    found = table(records)
    assert found.columns == ("language", "byte", "toy", "published")
    assert [row[0] for row in found.rows[:2]] == ["English", "Spanish"]
    assert str(found.rows[-1][0]) == "most / least"
    assert len(size_table(records).rows) == 2 * 12
    assert [row[0] for row in probe_table(records).rows] == list(PROBES)
    assert [row[0] for row in speed_table(records).rows] == ["toy"]
    (drawing,) = tokens_drawings(stored(tmp_path))
    assert drawing.name == "tokens_by_language"
    assert drawing.png.startswith(b"\x89PNG")


def test_a_report_has_a_row_a_text_and_tokenizer() -> None:
    rows = report([ByteTokenizer()], {"eng": "ab", "deu": "äbc"}, "eng", 100, 5.0)
    assert rows[1] == {
        "tokenizer": "byte",
        "language": "German",
        "tokens": 4,
        "relative": 2.0,
        "bytes/token": 1.0,
        "characters/token": 0.75,
        "of 100 tokens": 50,
        "cost": pytest.approx(2e-5),
    }


def test_probes_show_where_tokens_end() -> None:
    rows = {row["text"]: row for row in probed([ByteTokenizer()])}
    assert rows["12,345,678"]["tokens"] == 10
    assert rows["12,345,678"]["pieces"] == "'1' '2' ',' '3' '4' '5' ',' '6' '7' '8'"
    assert str(rows["a family of emoji"]["pieces"]).startswith(r"'\xf0' '\x9f'")


def test_a_reference_that_is_no_text() -> None:
    with pytest.raises(UserError, match="reference = 'tlh' is none of the texts: eng"):
        texts_of("embedded", "tlh")


def _of(arm: str, values: dict[str, float]) -> Record:
    return record(STUDY, arm, 0, measurements=measured(values, "1"))


def test_wordpiece_by_either_criterion(tmp_path: Path) -> None:
    """A vocabulary is the first pieces of a larger one, so that it is trained once."""
    study = TokensStudy(tokenizers={"byte": "byte"}, wordpiece=WordPieceComparison(vocabularies=(250, 200), every=400))
    assert [ran(study, tmp_path), ran(study, tmp_path)] == [0, 4]
    records = [entry.record for entry in stored(tmp_path)]
    found = wordpiece_table(records)
    assert [row[:2] for row in found.rows] == [(heading, size) for heading, _, _ in WAYS.values() for size in ("200", "250")]
    assert [row[0] for row in size_table(records).rows] == [row[0] for row in table(records).rows[:12]]
    (frequent,) = (one for one in records if one.arm == FREQUENCY)
    texts = [one.text.decode() for one in islice(stdlib_documents(), 0, None, 400)]
    others = [one.text.decode() for one in islice(stdlib_documents(), 200, None, 400)]
    tokenizer = train_wordpiece(texts, 200, "frequency").tokenizer()
    ids = np.concatenate([tokenizer.encode(text) for text in others])
    assert frequent.measurements["tokens.200"].value == len(ids)
    assert frequent.measurements["used.200"].value == len(set(ids.tolist())) / 200
    assert frequent.measurements["unknown.200"].value == np.mean(ids == tokenizer.specials.unk)
    assert frequent.measurements["bytes_per_token.200"].value == sum(len(text.encode()) for text in others) / len(ids)


def test_bits_of_independent_tokens() -> None:
    """Of four bytes, two are a: 1/2, 1/4, 1/4."""
    assert unigram_bits(ByteTokenizer(), ["ab", "ac"]) == pytest.approx(1.5)


def test_a_wordpiece_vocabulary_that_the_text_cannot_fill(tmp_path: Path) -> None:
    study = TokensStudy(tokenizers={"byte": "byte"}, wordpiece=WordPieceComparison(vocabularies=(90_000,), every=400))
    with pytest.raises(UserError, match=r"wordpiece\.vocabularies: this training gives vocabularies of"):
        ran(study, tmp_path)


@pytest.mark.parametrize(("likely", "verdict"), [((2.0, 1.9), "holds"), ((2.0, 2.1), "fails")])
def test_the_claim_of_likelihood(likely: tuple[float, ...], verdict: str) -> None:
    values = {FREQUENCY: (2.1, 2.0), LIKELIHOOD: likely}
    records = [
        _of(arm, {f"{name}.{size}": value for size, value in enumerate(found) for name in ("tokens", "bits_per_byte")})
        for arm, found in values.items()
    ]
    assert judge(CLAIMS["tokens-wordpiece-likelihood"], records).verdict == verdict
    assert judge(CLAIMS["tokens-wordpiece-likelihood"], records[:1]).verdict == "not measured"


# (claim, arm, values that support it, values that contradict it).
CASES: list[tuple[str, str, dict[str, float], dict[str, float]]] = [
    ("tokens-spa", "gpt4", {"relative.spa": 1.25}, {"relative.spa": 1.45}),
    ("tokens-cmn_hans", "gpt4", {"relative.cmn_hans": 1.4}, {"relative.cmn_hans": 1.2}),
    ("tokens-jpn", "gpt4", {"relative.jpn": 1.9}, {"relative.jpn": 2.3}),
    ("tokens-mya", "gpt4", {"relative.mya": 4.1}, {"relative.mya": 14.0}),
    ("tokens-kor", "gpt4", {"relative.kor": 2.2}, {"relative.kor": 2.6}),
    (
        "tokens-digits",
        "gpt4",
        {"probe.12345678": 3, "probe.12,345,678": 5},
        {"probe.12345678": 3, "probe.12,345,678": 3},
    ),
    ("tokens-no-unknown", "byte", {"unknown.eng": 0.0}, {"unknown.eng": 0.1}),
]


def test_every_claim_is_tried() -> None:
    alone = {
        "tokens-speed",
        "tokens-wordpiece-likelihood",
        "tokens-larger-vocabulary",
        "oversampling-fairer",
        "oversampling-cost",
    }
    tried = {claim for claim, *_ in CASES} | alone
    assert tried == set(CLAIMS)


@pytest.mark.parametrize(("claim", "arm", "supporting", "contrary"), CASES)
def test_claims_go_both_ways(claim: str, arm: str, supporting: dict, contrary: dict) -> None:
    assert judge(CLAIMS[claim], [_of(arm, supporting)]).verdict == "holds"
    assert judge(CLAIMS[claim], [_of(arm, contrary)]).verdict == "fails"
    assert judge(CLAIMS[claim], [_of("other", supporting)]).verdict == "not measured"


@pytest.mark.parametrize(
    ("kept", "verdict"), [((2.0, 2.1, 1.9), "holds"), ((4.0, 4.1, 3.9), "fails"), ((2.0, 4.0, 2.0), "mixed")]
)
def test_the_claim_of_speed(kept: tuple[float, ...], verdict: str) -> None:
    rounds = {"tiktoken": (8.0, 8.0, 8.0), "python": (1.0, 1.0, 1.0), "python_kept": kept}
    values = {f"speed.{way}.{i}": value for way, found in rounds.items() for i, value in enumerate(found)}
    assert judge(CLAIMS["tokens-speed"], [_of("gpt4", values)]).verdict == verdict


@pytest.mark.parametrize(("small", "verdict"), [(300, "holds"), (200, "fails")])
def test_the_claim_of_a_larger_vocabulary(small: float, verdict: str) -> None:
    records = [_of("gpt2", {"tokens.cmn_hans": small}), _of("gpt4", {"tokens.cmn_hans": 100})]
    assert judge(CLAIMS["tokens-larger-vocabulary"], records).verdict == verdict


def test_shares_of_languages() -> None:
    np.testing.assert_allclose(shares(3, 2.0, 1.0), np.array([4, 2, 1]) / 7)
    np.testing.assert_allclose(shares(3, 2.0, 0.0), np.full(3, 1 / 3))
    np.testing.assert_allclose(shares(2, 4.0, 0.5), np.array([2, 1]) / 3)


def test_pieces_count_by_the_share_of_their_bytes() -> None:
    """Two texts of equal shares, one of twice the bytes: each of its pieces counts half."""
    counted = weighted_pieces({"a": "xx xx", "b": "yy yy zz zzz"}, np.array([0.5, 0.5]), "whitespace")
    assert counted["xx"] / counted["yy"] == pytest.approx(12 / 5, rel=1e-3)


def test_lines_are_divided() -> None:
    assert divided("a\nb\nc\n") == ("a\nc\n", "b\n")


def test_even_shares_are_fairer(tmp_path: Path) -> None:
    study = MultilingualStudy(vocabularies=(320, 640), exponents=(1.0, 0.0))
    assert ran(study, tmp_path) == 0
    records = [entry.record for entry in stored(tmp_path)]
    found = multilingual_table(records)
    assert [row[:2] for row in found.rows] == [("1", "320"), ("1", "640"), ("0", "320"), ("0", "640")]
    assert judge(CLAIMS["oversampling-fairer"], records).verdict == "holds"
    assert judge(CLAIMS["oversampling-cost"], records).verdict == "holds"
    assert [drawing.name for drawing in multilingual_drawings(stored(tmp_path))] == ["multilingual_fairness"]
    turned = [
        one.model_copy(update={"config": one.config | {"exponent": 1 - float(str(one.config["exponent"]))}}) for one in records
    ]
    assert judge(CLAIMS["oversampling-fairer"], turned).verdict == "fails"
    assert judge(CLAIMS["oversampling-cost"], turned).verdict == "fails"


def _exponent(record: Record) -> float:
    return float(str(record.config["exponent"]))


def test_a_vocabulary_that_the_texts_cannot_fill(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="vocabularies: 9000: the corpus has"):
        ran(MultilingualStudy(vocabularies=(9000,), exponents=(0.0,)), tmp_path)
