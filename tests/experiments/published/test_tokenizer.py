"""The tokenizers of checkpoints, and whether they put BOS in front of a text."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.tokenizer import published_text
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.gguf import GgufTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from tests.tokenization.sentencepiece_models import BYTEWISE, trained_bytes

BOS = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<bos>": {"id": "<bos>", "ids": [257], "tokens": ["<bos>"]}},
}
NO_TOKENS = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}


def checkpoint(tokenizer: Path | GgufTokenizer | None) -> Checkpoint:
    return Checkpoint("tiny", {}, {}, tokenizer, (), {}.__getitem__)


def file_of(folder: Path, processor: dict[str, Any] | None = None, **config: Any) -> Path:
    """A tokenizer.json with a post-processor, and the tokenizer_config.json beside it."""
    content = json.loads(to_huggingface(ByteTokenizer()).to_str()) | {"post_processor": processor}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<bos>", **config}))
    return folder / "tokenizer.json"


@pytest.mark.parametrize(
    ("processor", "config", "expected"),
    [
        (None, {}, False),
        (BOS, {}, True),
        (NO_TOKENS, {}, False),
        (None, {"add_bos_token": True}, True),
        (BOS, {"add_bos_token": False}, False),
        (None, {"add_bos_token": True, "bos_token": None}, False),
    ],
)
def test_a_tokenizer_json_or_its_configuration_says_whether(
    tmp_path: Path, processor: dict[str, Any] | None, config: dict[str, Any], expected: bool
) -> None:
    tokenizer, add_bos = published_text(checkpoint(file_of(tmp_path, processor, **config)))
    assert tokenizer is not None
    assert tokenizer.encode("ab").tolist() == [97, 98]
    assert add_bos == expected


TOKENS = ("<s>", "</s>", "a", "b", "ab", "Ġ", "Ġa")
GGUF = GgufTokenizer(
    model="gpt2",
    pre="smollm",
    tokens=TOKENS,
    merges=("a b", "Ġ a"),
    scores=None,
    token_types=(3, 3, 1, 1, 1, 1, 1),
    bos=0,
    eos=1,
    unk=None,
    pad=1,
    add_bos=None,
    add_space_prefix=None,
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, False), ({"add_bos": True}, True), ({"pre": "llama-bpe"}, True), ({"pre": "llama-bpe", "add_bos": False}, False)],
)
def test_the_metadata_of_gguf_say_whether_or_llama_cpp_does(changes: dict[str, Any], expected: bool) -> None:
    tokenizer, add_bos = published_text(checkpoint(GGUF._replace(**changes)))
    assert tokenizer is not None
    assert tokenizer.encode("ab").tolist() == [4]
    assert (tokenizer.specials.bos, tokenizer.specials.eos, tokenizer.specials.pad) == (0, 1, 1)
    assert add_bos == expected


def test_a_sentencepiece_model_begins_texts_with_bos(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(trained_bytes(["a lead line"], 300, **BYTEWISE))
    tokenizer, add_bos = published_text(checkpoint(path))
    assert tokenizer is not None and tokenizer.specials.bos == 2
    assert add_bos


def test_files_may_hold_no_tokenizer() -> None:
    assert published_text(checkpoint(None)) == (None, False)


@pytest.mark.parametrize(
    ("changes", "vocabulary", "token"), [({}, 6, 6), ({"eos": 6, "token_types": (3, 3, 1, 1, 1, 1, 3)}, 6, 6), ({}, 1, 1)]
)
def test_a_tokenizer_of_a_larger_model_is_refused(changes: dict[str, Any], vocabulary: int, token: int) -> None:
    with pytest.raises(UserError, match=f"tiny: its tokenizer has the token {token}, and .* vocab_size = {vocabulary}: they"):
        published_text(replace(checkpoint(GGUF._replace(**changes)), config={"vocab_size": vocabulary}))


@pytest.mark.parametrize(("changes", "vocabulary"), [({}, 7), ({}, 8), ({"token_types": (3, 3, 1, 1, 1, 1, 3)}, 6)])
def test_rows_without_a_token_and_special_tokens_without_a_row_are_no_mistake(changes: dict[str, Any], vocabulary: int) -> None:
    assert published_text(replace(checkpoint(GGUF._replace(**changes)), config={"vocab_size": vocabulary})).tokenizer


def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="tiny: its tokenizer cannot be read"):
        published_text(replace(checkpoint(None), tokenizer=tmp_path / "tokenizer.json"))
