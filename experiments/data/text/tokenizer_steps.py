"""The steps of tokenizers as rows: of training, and of encoding a text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from leadline.experiments.config.tokenizer import Bpe, TrainedConfig, Unigram, WordPiece
from leadline.experiments.data.text.tokenizers import MINIMUM_COUNT, configured, open_tokenizer, settings_of, texts_of_files
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.training import merge_steps
from leadline.tokenization.formats.merge_trace import trace_merges
from leadline.tokenization.formats.published import PublishedTokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import rounds_of_texts
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer
from leadline.tokenization.wordpiece.training import counted
from leadline.tokenization.wordpiece.training import merge_steps as wordpiece_merge_steps
from leadline.tokenization.words import word_counts


def traced(
    paths: Sequence[Path], text: str | None, kind: str, vocabulary: int | None, steps: int, settings: Sequence[str]
) -> list[dict[str, str | int | float]]:
    """One row per step of training, at most `steps`; each is named by its columns.

    Raises:
        UserError: for settings or files that cannot be used, and text in which no step is possible.
    """
    cfg = configured(kind, vocabulary or 2**16, settings_of(settings))
    texts = texts_of_files(paths) if text is None else [text]
    try:
        rows = list(islice(_steps(cfg, texts), steps))
    except ValueError as error:
        raise UserError(str(error)) from error
    if not rows:
        raise UserError("there is nothing to merge in this text; give more of it")
    return rows


def traced_encoding(spec: str, text: str, steps: int) -> list[dict[str, str | int | float]]:
    """One row for each merge by which a published tokenizer encodes a text, at most `steps`.

    Raises:
        UserError: for a tokenizer that is no tokenizer.json or not BPE, and a text in which nothing is merged.
    """
    tokenizer = open_tokenizer(spec)
    if not isinstance(tokenizer, PublishedTokenizer):
        raise UserError(f"{spec}: the steps of encoding are shown for a tokenizer.json; those of training are for each --kind")
    try:
        merges = list(islice(trace_merges(tokenizer, text), steps))
    except ValueError as error:
        raise UserError(f"{spec}: {error}") from error
    if not merges:
        raise UserError("nothing is merged in this text; give more of it")
    return [
        {
            "word": _shown(merge.word),
            "left": _shown(merge.left),
            "right": _shown(merge.right),
            "rank": merge.rank,
            "tokens/word": merge.tokens,
        }
        for merge in merges
    ]


def _shown(piece: bytes) -> str:
    """A piece as Python writes a string, the beginning of a long one."""
    text = piece.decode(errors="replace")
    return repr(text if len(text) <= 24 else f"{text[:23]}…")


def _steps(cfg: TrainedConfig, texts: Iterable[str]) -> Iterator[dict[str, str | float]]:
    """A row for each step by which `train_tokenizer` trains."""
    fields = cfg.model_dump(include={"byte_fallback", "pattern", "normalization"})
    match cfg:
        case Bpe():
            words = word_counts(texts, cfg.pattern, single_digits=cfg.single_digits, normalization=cfg.normalization)
            for number, step in enumerate(merge_steps(words, cfg.alphabet), start=1):
                left, right = (_shown(part.encode() if isinstance(part, str) else part) for part in step.parts)
                pair = {"step": number, "left": left, "right": right, "count": step.count}
                yield pair | {"tokens": step.tokens, "tokens/word": step.tokens_per_word}
        case WordPiece():
            words = counted(texts, WordPieceTokenizer((), **fields))
            merges = wordpiece_merge_steps(words, cfg.criterion, minimum_count=MINIMUM_COUNT)
            for number, merge in enumerate(merges, start=1):
                pair = {"step": number, "left": repr(merge.left), "right": repr(merge.right), "count": merge.count}
                yield pair | {"score": float(merge.score)}
        case Unigram():
            rounds = rounds_of_texts(texts, cfg.vocabulary, UnigramTokenizer((), (), **fields))
            for number, state in enumerate(rounds, start=1):
                pieces = {"round": number, "pieces": len(state.pieces)}
                yield pieces | {"log likelihood": state.log_likelihood, "tokens": state.tokens}
        case _:
            raise ValueError(f"kind = {cfg.kind!r}: only bpe, wordpiece and unigram are trained in steps")
