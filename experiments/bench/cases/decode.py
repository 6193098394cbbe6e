"""Decoding with a cache of the first and the newest tokens (StreamingLLM)."""

import dataclasses

from leadline.experiments.bench.cases.step import SMALL
from leadline.experiments.bench.contest import Benchmark, Case, ours, peer

WINDOW, INITIAL_TOKENS, COUNT = 256, 4, 128
RATES = {1: 2900.0, 8: 7000.0}  # tokens a second that are aimed at, by batch


def benchmark() -> Benchmark:
    """One text, and eight at once."""
    return Benchmark(
        "decode",
        "How many tokens a second does a stream give?",
        tuple(_case(batch) for batch in RATES),
        (
            f"{COUNT} greedy tokens after a prompt of {SMALL.length} tokens that has been read; the cache keeps "
            f"{INITIAL_TOKENS} initial tokens and the {WINDOW} newest; positions are those in the cache; torch agrees",
            f"transformers evicts nothing: its context grows from {SMALL.length} to {SMALL.length + COUNT}",
        ),
    )


def _case(batch: int) -> Case:
    size = dataclasses.replace(SMALL, batch=batch).as_json()
    common = {"size": size, "count": COUNT}
    stream = {**common, "window": WINDOW, "initial_tokens": INITIAL_TOKENS}
    cache = f"{INITIAL_TOKENS} initial + {WINDOW} newest"
    return Case(
        f"decoding, L{SMALL.layers} d{SMALL.width} V{SMALL.vocabulary} B{batch}, {cache}, float32",
        (
            ours("decode:prepare", stream),
            peer("torch, same algorithm", "torch_stream:prepare", stream),
            peer("transformers generate", "transformers_llama:prepare_generation", common),
        ),
        targets={"torch, same algorithm": 2.0, "transformers generate": 6.0},
        tokens=batch * COUNT,
        rate=RATES[batch],
        tolerance=0.0,
    )
