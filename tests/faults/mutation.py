"""Mistakes that are put into files and trees of values."""

from collections.abc import Iterator
from random import Random
from typing import Any

EXTREMES = [0, 1, 255, (1 << 16) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]
DEEP: Any = None
for _ in range(300):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "../x",
        "/",
        "a\0b",
        "\ud800",
        "x" * 100_000,
        "{",
        "é" * 50,
        "2024-99-99",
        "nan",
        "{0}",
        "%s%n",
    ),
    *(0, 1, -1, 2**31, 2**63 - 1, -(2**63), 10**400, 0.5, -0.0, 1e308, -1e308, 1e-320, float("inf"), float("nan")),
    *([], [[]], {}, [0], ["x"], [None], {"x": 1}, {"kind": "x"}, [1] * 10_000, DEEP),
)


def mutated(data: bytes, header: int, random: Random) -> bytes:
    """One to three mistakes in the first `header` bytes: changed bytes, extreme numbers, parts taken out, doubled, cut off."""
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        if not data:
            return data
        place, length = random.randrange(min(header, len(data))), random.randrange(1, 24)
        match random.randrange(6):
            case 0:
                data = data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]
            case 1:
                data = data[:place] + random.randbytes(length) + data[place + length :]
            case 2:
                width = random.choice([4, 8])
                number = random.choice(EXTREMES) % (1 << 8 * width)
                data = data[:place] + number.to_bytes(width, "little") + data[place + width :]
            case 3:
                data = data[:place] + data[place + length :]
            case 4:
                data = data[: place + length] + data[place:]
            case _:
                data = data[: random.randrange(1, len(data) + 1)]
    return data


def damaged(data: bytes, random: Random) -> bytes:
    """Other bytes than these: often one bit."""
    while (other := mutated(data, len(data), random) if random.random() < 0.5 else _flipped(data, random)) == data:
        pass
    return other


def _flipped(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]


def with_mistake(tree: Any, random: Random) -> Any:
    """A copy of nested mappings and lists in which one value is an odd one, is gone, is there twice, or has another name."""
    places = list(_places(tree))
    place = random.choice(places) if places else ()
    return _changed(tree, place, random)


def _places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*above, key)
        yield from _places(value, (*above, key))


def _changed(tree: Any, place: tuple[Any, ...], random: Random) -> Any:
    if not place:
        return random.choice(ODD)
    key, *rest = place
    if isinstance(tree, list):
        if rest or random.random() < 0.6:
            return [*tree[:key], _changed(tree[key], tuple(rest), random), *tree[key + 1 :]]
        return random.choice([tree[:key] + tree[key + 1 :], [*tree, tree[key]]])
    if rest or random.random() < 0.7:
        return tree | {key: _changed(tree[key], tuple(rest), random)}
    without = {name: value for name, value in tree.items() if name != key}
    return random.choice([without, without | {f"{key}x": tree[key]}, tree | {"x": tree[key]}])
