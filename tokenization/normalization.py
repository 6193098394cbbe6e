"""Text from UTF-8, and Unicode normalization as a list of steps."""

import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

import regex

# nfc, nfkc: canonical and compatibility composition (Unicode Standard Annex 15). lower: lower case of all scripts.
# spaces: each run of white space becomes one space, and both ends are stripped.
Step = Literal["nfc", "nfkc", "lower", "spaces"]


def to_utf8(text: str | bytes) -> bytes:
    """Encodes a string as UTF-8 and returns bytes unchanged.

    Raises:
        ValueError: The string contains a lone surrogate, which UTF-8 cannot express.
    """
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the text is the lone surrogate U+{ord(text[error.start]):04X}, "
            "which has no UTF-8 form; remove it"
        ) from error


def to_text(text: str | bytes) -> str:
    """Decodes UTF-8 bytes and returns a valid string unchanged.

    Raises:
        ValueError: The bytes are not UTF-8, or the string contains a lone surrogate.
    """
    if isinstance(text, str):
        to_utf8(text)
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the text is not UTF-8 at byte {error.start} (0x{text[error.start]:02x}); convert it to UTF-8"
        ) from error


def check_steps(steps: Sequence[str]) -> None:
    """Raises ValueError where the steps are one string, or one of them is unknown."""
    if isinstance(steps, str) or not all(step in get_args(Step) for step in steps):
        raise ValueError(f"normalization is {steps!r}; give a list of steps, each one of {', '.join(get_args(Step))}")


def normalize(text: str | bytes, steps: Sequence[str]) -> str:
    """Applies the steps to a text in order. None of them can be undone.

    Raises:
        ValueError: The steps are one string or one of them is unknown, or as `to_text`.
    """
    check_steps(steps)
    text = to_text(text)
    for step in steps:
        match step:
            case "nfc":
                text = unicodedata.normalize("NFC", text)
            case "nfkc":
                text = unicodedata.normalize("NFKC", text)
            case "lower":
                text = text.lower()
            case "spaces":
                text = regex.sub(r"\s+", " ", text).strip(" ")
    return text
