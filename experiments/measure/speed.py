"""The speed of tokenizers, measured side by side."""

import time
from collections.abc import Callable, Mapping, Sequence

ROUNDS = 3


def megabytes_per_second(
    ways: Mapping[str, Callable[[str], object]], texts: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """The speed of each way to encode, in 10^6 bytes of UTF-8 a second, once in each of ROUNDS rounds.

    The ways take turns within a round, so that a drift of the machine meets all of them. The texts are encoded one by one.

    Args:
        ways: functions that encode one text, by name.
        texts: what each of them encodes in each round.
        clock: gives seconds.

    Raises:
        ValueError: without a text.
    """
    size = sum(len(text.encode()) for text in texts) / 1e6
    if not size:
        raise ValueError("there is no text to encode; give some")
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, encode in ways.items():
            began = clock()
            for text in texts:
                encode(text)
            speeds[name].append(size / (clock() - began))
    return speeds
