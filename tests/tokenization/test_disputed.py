"""Characters that two engines class differently."""

import pytest
import regex
from tokenizers import Regex, pre_tokenizers

from tokenization.disputed import Disputed


def in_one_only(name: str, character: str) -> bool:
    """Whether one engine alone finds the character in a class, asked in another way."""
    theirs = pre_tokenizers.Split(Regex(name), "removed", invert=True).pre_tokenize_str(character)
    return bool(theirs) != bool(regex.match(name, character))


def test_letters_of_old_are_not_disputed() -> None:
    letters = {chr(i) for i in range(0x20, 0x250)} | set("हिन्दी ไทย 日本語 🙂\u200d\u3000²½_")
    assert Disputed().among(letters) == set()


@pytest.mark.parametrize("name", [r"\s", r"\p{L}", r"\p{N}", r"\p{M}", r"\p{Lo}", r"\p{Ll}"])
def test_what_is_in_a_class_for_one_engine_only_is_found(name: str) -> None:
    """Some 400 characters of which Unicode took up many in its last versions, and U+0295, which went from Ll to Lo."""
    characters = {chr(i) for i in range(0x11D80, 0x11F00)} | {"\u0295"}
    assert {character for character in characters if in_one_only(name, character)} <= Disputed().among(characters)


def test_no_characters() -> None:
    assert Disputed().among(set()) == set()
