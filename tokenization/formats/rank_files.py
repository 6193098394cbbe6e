"""Rank vocabularies from files, with the pattern and the specials beside them, or by the names of the tiktoken library."""

import base64
import binascii
import json
from pathlib import Path

import tiktoken

from leadline.tokenization.formats.tiktoken import RankTokenizer, check_bytes, check_special_ids
from leadline.tokenization.pretokenization import PATTERNS

# The vocabularies of tiktoken that have every special after all pieces, as those of p50k_base and p50k_edit have not.
NAMES = ("gpt2", "r50k_base", "cl100k_base", "o200k_base", "o200k_harmony")
# What tiktoken writes in place of PATTERNS; it cuts alike.
_WRITTEN = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}
PATTERN_OF = {expression: name for name, expression in (*PATTERNS.items(), *_WRITTEN.items())}


def load_ranks(path: Path) -> RankTokenizer:
    """Loads NAME.tiktoken, with the pattern and the specials in NAME.json as {"pat_str": …, "special_tokens": {NAME: ID}}.

    Raises:
        ValueError: A file is missing or not as described.
    """
    settings = path.with_suffix(".json")
    for needed in (path, settings):
        if not needed.is_file():
            raise ValueError(f"{needed}: there is no such file; a vocabulary is NAME.tiktoken with NAME.json beside it")
    try:
        content = json.loads(settings.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{settings}: not JSON ({error})") from error
    match content:
        case {"pat_str": str(pattern), "special_tokens": dict(special_ids)}:
            pass
        case _:
            raise ValueError(f'{settings}: expected {{"pat_str": PATTERN, "special_tokens": {{NAME: ID}}}}')
    ranks = read_ranks(path)
    try:
        check_special_ids(special_ids, len(ranks), path.stem)
        return RankTokenizer(path.stem, PATTERN_OF.get(pattern, pattern), ranks, special_ids)
    except ValueError as error:
        raise ValueError(f"{settings}: {error}") from error


def named_ranks(name: str) -> RankTokenizer:
    """A vocabulary by its name in tiktoken, as in "cl100k_base". The library downloads it and keeps it.

    Raises:
        ValueError: The name is unknown, or the vocabulary cannot be downloaded.
    """
    if name not in NAMES:
        raise ValueError(f"{name!r} is no vocabulary of tiktoken that can be loaded; these are {', '.join(NAMES)}")
    try:
        encoding = tiktoken.get_encoding(name)
    except OSError as error:  # the errors of network libraries are all of this kind
        raise ValueError(
            f"{name} cannot be downloaded ({type(error).__name__}); name the folder of {name}.tiktoken and {name}.json"
        ) from error
    ranks = {piece: encoding.encode_single_token(piece) for piece in encoding.token_byte_values()}
    specials = {special: encoding.encode_single_token(special) for special in encoding.special_tokens_set}
    return RankTokenizer(name, PATTERN_OF.get(encoding._pat_str, encoding._pat_str), ranks, specials)


def read_ranks(path: Path | str) -> dict[bytes, int]:
    """Reads a rank file: each line is a piece in base 64, a space and its rank.

    Returns:
        The rank of every piece, in ascending order.

    Raises:
        ValueError: A line, which is named, is not so or repeats a piece or rank; a rank is missing; or a byte is no piece.
    """
    ranks: dict[bytes, int] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        piece, rank = _parsed(line, f"{path}:{number}")
        if piece in ranks:
            raise ValueError(f"{path}:{number}: {piece!r} is on line {lines[ranks[piece]]} already; remove one of the two")
        if rank in lines:
            raise ValueError(f"{path}:{number}: rank {rank} is on line {lines[rank]} already; give each piece its own")
        ranks[piece], lines[rank] = rank, number
    missing = next(rank for rank in range(len(lines) + 1) if rank not in lines)
    if missing < len(lines):
        raise ValueError(f"{path}: rank {missing} is missing, but there are {len(lines)} pieces; restore it, or close the gap")
    check_bytes(ranks, str(path))
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def _parsed(line: bytes, place: str) -> tuple[bytes, int]:
    parts = line.split()
    if len(parts) != 2 or not parts[1].isdigit() or len(parts[1]) > 9:
        raise ValueError(f"{place}: {line[:60]!r} is not a piece in base 64, a space and a rank; write it so, or remove it")
    try:
        piece = base64.b64decode(parts[0], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{place}: {parts[0][:60]!r} is not base 64 ({error}); encode the bytes of the piece again") from error
    if not piece:
        raise ValueError(f"{place}: the piece is empty; remove the line")
    return piece, int(parts[1])
