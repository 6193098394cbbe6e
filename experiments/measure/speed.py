"""How fast tokenizers are, side by side."""

import time
from collections.abc import Callable, Mapping, Sequence

ROUNDS = 3


def megabytes_per_second(ways: Mapping[str, Callable[[str], object]], texts: Sequence[str]) -> dict[str, list[float]]:
    """10^6 bytes of UTF-8 a second of each way to encode, in each of ROUNDS rounds in which the ways take turns.

    The texts are encoded one by one. Raises ValueError without a text.
    """
    size = sum(len(text.encode()) for text in texts) / 1e6
    if not size:
        raise ValueError("there is no text to encode; give some")
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, encode in ways.items():
            began = time.perf_counter()
            for text in texts:
                encode(text)
            found[name].append(size / (time.perf_counter() - began))
    return found
