"""What is done to a text before it is cut, as explicit steps in their order, and what each of them loses."""

import unicodedata
from collections.abc import Sequence
from typing import Literal

import regex

# nfc and nfkc: Unicode's canonical and compatibility composition (UAX 15). lower: lower case, of the whole Unicode range.
# spaces: every run of white space becomes one space, and none is left at either end.
Step = Literal["nfc", "nfkc", "lower", "spaces"]


def normalized(text: str, steps: Sequence[Step]) -> str:
    """The text after each step, in their order."""
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


def keeps_all(steps: Sequence[Step]) -> bool:
    """Whether every text can be told from its normalised form: no step can be undone, so only without any."""
    return not steps
