"""The cost of each mechanism, beside the same model or the same attention without it."""

from typing import Any

from leadline.experiments.bench.cases.step import MIDDLE, SMALL
from leadline.experiments.bench.contest import Benchmark, Case, Where, ours
from leadline.experiments.bench.workloads.llama import Size

ALIBI = "ALiBi in place of RoPE"
CHANGES: dict[str, dict[str, Any]] = {
    "a learned sink logit": {"sink": {"kind": "learned"}},
    "a headwise gate": {"gate": {"kind": "output", "per": "head"}},
    ALIBI: {"position": {"kind": "alibi"}},
}
SIZES: tuple[tuple[Size, str, Where], ...] = ((SMALL, "float32", "cpu"), (MIDDLE, "bfloat16", "accelerator"))
# On an accelerator a mechanism may cost a step 3 % at most.
LEAST = 1 / 1.03
TOKENS, WINDOW, INITIAL_TOKENS = 8192, 256, 4
HEADS = {"cpu": 4, "accelerator": 16}
TIMES_A_WINDOW = 3.0


def benchmark() -> Benchmark:
    """In float32 on a CPU, in bfloat16 on an accelerator."""
    steps = tuple(_step(name, *machine) for machine in SIZES for name in CHANGES)
    return Benchmark(
        "mechanisms",
        "What does a mechanism cost?",
        (*steps, _window("float32", "cpu"), _window("bfloat16", "accelerator")),
        (
            "leadline: a training step with the mechanism; plain: RoPE, softmax, no gate",
            "the window and the initial tokens are values: the same program computes full attention",
        ),
    )


def _step(name: str, size: Size, compute: str, where: Where) -> Case:
    common = {"size": size.as_json(), "compute": compute}
    contestants = (
        ours("sweep:with_mechanism", {**common, "changes": CHANGES[name]}),
        ours("sweep:with_mechanism", {**common, "changes": {}}, "plain"),
    )
    targets = {"plain": LEAST} if where == "accelerator" and name != ALIBI else {}
    return Case(f"{name}, {size.title}, {compute}", contestants, targets=targets, tokens=size.tokens, where=where)


def _window(compute: str, where: Where) -> Case:
    common = {"tokens": TOKENS, "heads": HEADS[where], "compute": compute}
    contestants = (
        ours("attention:windowed", {**common, "window": WINDOW, "initial_tokens": INITIAL_TOKENS}),
        ours("attention:windowed", {**common, "window": None}, "full attention"),
    )
    title = f"attention forward and backward, window {WINDOW} and {INITIAL_TOKENS} initial tokens, T{TOKENS}, {compute}"
    return Case(title, contestants, targets={"full attention": TIMES_A_WINDOW}, tokens=TOKENS, where=where)
