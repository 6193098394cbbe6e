"""Published rank vocabularies: files with their pattern and specials beside them, or by the names that tiktoken knows."""

import json
from pathlib import Path

import tiktoken

from tokenization.pretokenization import PATTERNS
from tokenization.ranks import RankTokenizer, read_ranks

# Of what tiktoken calls by name; it writes some of these patterns in another, equal way.
PATTERN_OF = {
    "gpt2": "gpt2",
    "r50k_base": "gpt2",
    "p50k_base": "gpt2",
    "cl100k_base": "gpt4",
    "o200k_base": "o200k",
    "o200k_harmony": "o200k",
}


def load_ranks(path: Path) -> RankTokenizer:
    """The tokenizer of NAME.tiktoken, whose pattern and specials are in NAME.json as {"pat_str": …, "special_tokens": {…}}.

    Raises ValueError for a file that is missing or not as described, and what `read_ranks` does.
    """
    beside = path.with_suffix(".json")
    for needed in (path, beside):
        if not needed.is_file():
            raise ValueError(f"{needed}: there is no such file; a vocabulary is NAME.tiktoken with NAME.json beside it")
    try:
        content = json.loads(beside.read_bytes())
        pattern, specials = content["pat_str"], dict(content["special_tokens"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{beside}: not {{"pat_str": …, "special_tokens": {{…}}}} ({error}); write it so') from error
    return RankTokenizer(path.stem, _named(pattern), read_ranks(path), specials)


def named_ranks(name: str) -> RankTokenizer:
    """A vocabulary by the name that tiktoken gives it, as in "cl100k_base"; tiktoken downloads and keeps it.

    Raises ValueError for a name that tiktoken does not know, and where it cannot be downloaded.
    """
    if name not in PATTERN_OF:
        raise ValueError(f"{name!r} is no vocabulary of tiktoken that is known here; there are {', '.join(PATTERN_OF)}")
    try:
        encoding = tiktoken.get_encoding(name)
    except OSError as error:  # what the libraries for networks raise are all of this kind
        raise ValueError(
            f"{name} cannot be downloaded ({type(error).__name__}); name the folder of {name}.tiktoken and {name}.json"
        ) from error
    ranks = {piece: encoding.encode_single_token(piece) for piece in encoding.token_byte_values()}
    specials = {special: encoding.encode_single_token(special) for special in encoding.special_tokens_set}
    return RankTokenizer(name, PATTERN_OF[name], ranks, specials)


def _named(pattern: str) -> str:
    """The name of a pattern that has one."""
    return next((name for name, known in PATTERNS.items() if known == pattern), pattern)
