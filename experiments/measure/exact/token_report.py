"""Rows that `leadline tokens` prints."""

from collections.abc import Mapping, Sequence

from leadline.experiments.measure.cost import costs, effective_context, relative
from leadline.experiments.measure.exact.texts import LANGUAGES
from leadline.experiments.measure.exact.tokens import PROBES
from leadline.tokenization.tokenizer import Tokenizer

Row = dict[str, str | float]


def report(
    tokenizers: Sequence[Tokenizer], texts: Mapping[str, str], reference: str, window: int, price: float | None
) -> list[Row]:
    """A row for each tokenizer and text.

    Args:
        tokenizers: what encodes the texts.
        texts: parallel texts by language.
        reference: the language that the others are compared with.
        window: tokens of a context.
        price: of a million tokens; None leaves the column out.

    Raises:
        UserError: for a text that cannot be encoded.
    """
    rows = []
    for tokenizer in tokenizers:
        by_language = costs(tokenizer, texts)
        for language, premium in relative(by_language, reference).items():
            text = by_language[language]
            row: Row = {
                "tokenizer": tokenizer.name,
                "language": LANGUAGES.get(language, language),
                "tokens": text.tokens,
                "relative": premium,
                "bytes/token": text.bytes_per_token,
                "characters/token": text.characters_per_token,
                f"of {window} tokens": round(effective_context(window, premium)),
            }
            rows.append(row if price is None else row | {"cost": text.tokens * price / 1e6})
    return rows


def probed(tokenizers: Sequence[Tokenizer]) -> list[Row]:
    """A row for each probe and tokenizer: its tokens, and where they end."""
    return [
        {"text": name, "tokenizer": tokenizer.name, "tokens": len(ids), "pieces": _pieces(tokenizer, ids.tolist())}
        for name, text in PROBES.items()
        for tokenizer in tokenizers
        for ids in (tokenizer.encode(text),)
    ]


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Each token as Python writes a string, or bytes where it ends inside a character."""
    pieces = []
    for token in ids:
        piece = tokenizer.token_bytes(token)
        try:
            pieces.append(repr(piece.decode()))
        except UnicodeDecodeError:
            pieces.append(repr(piece)[1:])
    return " ".join(pieces)
