"""Code and prose of a corpus apart."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from experiments.config.data import BackcopyData, TextData
from experiments.data.corpus import Document
from experiments.data.domains import domain_tokens
from experiments.data.source import BackcopySource, TextSource, open_source
from tokenization.byte import ByteTokenizer

TOKENIZER = ByteTokenizer()
EOS = 258


def _ids(documents: list[Document]) -> np.ndarray:
    return np.array([i for document in documents for i in (*document.text, EOS)], np.uint16)


def test_documents_are_divided_by_their_suffix_and_end_with_eos() -> None:
    documents = [Document("a.py", b"x=1"), Document("topics/if", b"If"), Document("b.py.gz", b"y")]
    found = domain_tokens([(documents[:2], _ids(documents[:2])), (documents[2:], _ids(documents[2:]))], EOS)
    assert found["code"].tolist() == [*b"x=1", EOS, *b"y", EOS]
    assert found["prose"].tolist() == [*b"If", EOS]


def test_a_domain_that_is_not_there_is_left_out() -> None:
    documents = [Document("a.txt", b"abc")]
    assert set(domain_tokens([(documents, _ids(documents))], EOS)) == {"prose"}


def test_windows_of_both_domains_are_as_many_and_begin_with_bos(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for i in range(30):
        (tmp_path / "code" / f"{i}.py").write_text(f"value_{i} = {i}\n" * 8)
        (tmp_path / "code" / f"{i}.txt").write_text(f"The value of {i} is told here.\n" * 4)
    data = TextData(corpus=(str(tmp_path / "code"),), length=16, held_out=0.4, bos="fixed")
    source = open_source(data, tmp_path / "cache")
    assert isinstance(source, TextSource)
    windows = source.by_domain(16, 5)
    assert {name: rows.shape for name, rows in windows.items()} == {"code": (5, 17), "prose": (5, 17)}
    assert {int(rows[0, 0]) for rows in windows.values()} == {TOKENIZER.specials.bos}
    assert b"value_" in bytes(windows["code"][0, 1:].astype(np.uint8))


def test_without_bos_sequences_are_those_with_it_from_the_next_id_on(tmp_path: Path) -> None:
    """One program draws both: what is cut off is a value."""
    whole, cut = (open_source(BackcopyData(length=16, bos=bos), tmp_path) for bos in ("fixed", "absent"))
    assert isinstance(whole, BackcopySource)
    assert isinstance(cut, BackcopySource)
    longer, shorter = (
        np.asarray(source.sample(jnp.asarray(source.inputs(3, 5, 4)), source.shared, 4).tokens) for source in (whole, cut)
    )
    assert longer.shape == shorter.shape == (4, 17)
    np.testing.assert_array_equal(longer[:, 1:], shorter[:, :-1])
    assert (longer[:, 0] == 64).all()
    assert not (shorter == 64).any()
    np.testing.assert_array_equal(np.asarray(whole.held_out(3))[:, 1:], np.asarray(cut.held_out(3))[:, :-1])
