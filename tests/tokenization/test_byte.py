"""The byte tokenizer."""

from hypothesis import given
from hypothesis import strategies as st

from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.tokenizer import Specials


@given(st.binary(max_size=300))
def test_ids_are_the_bytes(text: bytes) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.encode(text).tolist() == list(text)
    assert tokenizer.decode(list(text)) == text


def test_specials_follow_the_bytes() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.specials == Specials(pad=256, unk=None, bos=257, eos=258)
    assert tokenizer.vocabulary_size == 259
    assert tokenizer.decode([257, 104, 256, 105, 258]) == b"hi"
    assert b"".join(map(tokenizer.token_bytes, range(259))) == bytes(range(256))
