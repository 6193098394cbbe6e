"""Decoding: the next tokens of a text whose beginning and newest tokens are remembered (StreamingLLM)."""

import dataclasses

from experiments.bench.contest import Benchmark, Case, Contestant
from experiments.bench.step import SMALL

WINDOW, KEPT, COUNT = 256, 4, 128
PEERS = "experiments.bench.peers"
RATES = {1: 2900.0, 8: 7000.0}  # tokens a second that are aimed at, by batch


def benchmark() -> Benchmark:
    """One text at once, and eight."""
    return Benchmark(
        "decode",
        "How many tokens a second does a stream give?",
        tuple(_case(batch) for batch in RATES),
        (
            f"{COUNT} greedy tokens behind a prompt of {SMALL.length} tokens that is read already; {KEPT} first tokens and the "
            f"{WINDOW} newest are remembered; positions are those inside the cache; torch gives the same tokens",
            f"transformers forgets nothing: its context grows from {SMALL.length} to {SMALL.length + COUNT}",
        ),
    )


def _case(batch: int) -> Case:
    size = dataclasses.replace(SMALL, batch=batch).as_json()
    common = {"size": size, "count": COUNT}
    stream = {**common, "window": WINDOW, "kept": KEPT}
    return Case(
        f"decoding, L{SMALL.layers} d{SMALL.width} V{SMALL.vocabulary} B{batch}, {KEPT} kept + {WINDOW} newest, float32",
        (
            Contestant("leadline", "experiments.bench.ours_decode:prepare", stream),
            Contestant("torch, same algorithm", f"{PEERS}.torch_stream:prepare", stream),
            Contestant("transformers generate", f"{PEERS}.transformers_generate:prepare", common),
        ),
        targets={"torch, same algorithm": 2.0, "transformers generate": 6.0},
        tokens=batch * COUNT,
        rate=RATES[batch],
        tolerance=0.0,
    )
