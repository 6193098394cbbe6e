"""The tokenizer of a checkpoint, and whether its texts begin with BOS."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer as LibraryTokenizer

from leadline.experiments.published.architectures.base import Keys
from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.records.json_file import parse
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.gguf import GgufTokenizer, gguf_tokenizer
from leadline.tokenization.formats.published import CONFIG, PublishedTokenizer, load_published
from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.tokenizer import Tokenizer


class PublishedText(NamedTuple):
    """How text becomes ids.

    Attributes:
        tokenizer: None where the files hold none.
        add_bos: whether BOS is put in front of a text.
    """

    tokenizer: Tokenizer | None
    add_bos: bool


def published_text(checkpoint: Checkpoint) -> PublishedText:
    """The tokenizer of a checkpoint.

    `add_bos_token` of tokenizer_config.json or of the GGUF file says whether BOS is put in front of a text. Where it is absent,
    the kind of tokenizer decides:

        tokenizer.json    where its post-processor puts it there
        tokenizer.model   always, as for LLaMA
        GGUF              with SentencePiece and with the pre-tokenizer of LLaMA 3, as in llama.cpp

    Raises:
        UserError: for a tokenizer that cannot be read, and one with tokens that the model does not have.
    """
    source = checkpoint.tokenizer
    try:
        match source:
            case None:
                return PublishedText(None, add_bos=False)
            case GgufTokenizer():
                tokenizer, stated = gguf_tokenizer(source), source.add_bos
                usual = source.model == "llama" or source.pre == "llama-bpe"
            case Path(suffix=".json"):
                tokenizer, stated = load_published(source.parent), _stated(source.parent)
                usual = _begins_with_bos(tokenizer)
            case _:
                tokenizer, stated, usual = SentencePieceTokenizer.from_file(source), _stated(source.parent), True
    except (ValueError, OSError) as error:
        raise UserError(f"{checkpoint.name}: its tokenizer cannot be read ({error})") from error
    _check_ids(checkpoint, tokenizer)
    return PublishedText(tokenizer, (usual if stated is None else stated) and tokenizer.specials.bos is not None)


def _check_ids(checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
    """UserError where text becomes an id that the embedding has no row for.

    Tokens without text that are neither BOS, EOS nor UNK may lie beyond: Gemma 3 has such a one, of images.
    """
    vocabulary = Keys(checkpoint.config, checkpoint.name).count_or_none("vocab_size")
    if vocabulary is None or tokenizer.vocabulary_size <= vocabulary:
        return
    used = {tokenizer.specials.bos, tokenizer.specials.eos, tokenizer.specials.unk}
    beyond = range(vocabulary, tokenizer.vocabulary_size)
    first = next((token for token in beyond if token in used or tokenizer.token_bytes(token)), None)
    if first is not None:
        raise UserError(
            f"{checkpoint.name}: its tokenizer has the token {first}, and config.json says vocab_size = {vocabulary}: "
            "they are of different models; get both from one place"
        )


def _stated(folder: Path) -> bool | None:
    """`add_bos_token` of a tokenizer_config.json; None where it does not say."""
    path = folder / CONFIG
    return parse(path.read_bytes()).get("add_bos_token") if path.exists() else None


def _begins_with_bos(tokenizer: PublishedTokenizer) -> bool:
    """Whether the library puts BOS in front of a text."""
    ids = LibraryTokenizer.from_str(tokenizer.file).encode("a").ids
    return ids[:1] == [tokenizer.specials.bos]
