"""What mechanisms cost: each beside the same model, or the same attention, without it."""

from typing import Any

from experiments.bench.contest import Benchmark, Case, Contestant, Where
from experiments.bench.llama import Size
from experiments.bench.step import MIDDLE, SMALL

OURS = "experiments.bench.ours_mechanisms"
ALIBI = "ALiBi in the place of RoPE"
CHANGES: dict[str, dict[str, Any]] = {
    "a learned logit": {"sink": {"kind": "learned"}},
    "a headwise gate": {"gate": {"kind": "output", "per": "head"}},
    ALIBI: {"position": {"kind": "alibi"}},
}
SIZES: tuple[tuple[Size, str, Where], ...] = ((SMALL, "float32", "cpu"), (MIDDLE, "bfloat16", "accelerator"))
# On an accelerator a step without the mechanism takes so many times as long as one with it at least: 3 % are lost at most.
LEAST = 1 / 1.03
TOKENS, WINDOW, KEPT = 8192, 256, 4
HEADS = {"cpu": 4, "accelerator": 16}
TIMES_A_WINDOW = 3.0


def benchmark() -> Benchmark:
    """On a CPU in float32, on an accelerator in bfloat16."""
    steps = tuple(_step(name, *machine) for machine in SIZES for name in CHANGES)
    return Benchmark(
        "mechanisms",
        "What does a mechanism cost?",
        (*steps, _window("float32", "cpu"), _window("bfloat16", "accelerator")),
        (
            "leadline: a training step with the mechanism; plain: RoPE, softmax, no gate",
            "window and kept tokens are values: the same program computes full attention",
        ),
    )


def _step(name: str, size: Size, compute: str, where: Where) -> Case:
    common = {"size": size.as_json(), "compute": compute}
    contestants = (
        Contestant("leadline", f"{OURS}:step", {**common, "changes": CHANGES[name]}),
        Contestant("plain", f"{OURS}:step", {**common, "changes": {}}),
    )
    targets = {"plain": LEAST} if where == "accelerator" and name != ALIBI else {}
    return Case(f"{name}, {size.title}, {compute}", contestants, targets=targets, tokens=size.tokens, where=where)


def _window(compute: str, where: Where) -> Case:
    common = {"tokens": TOKENS, "heads": HEADS[where], "compute": compute}
    contestants = (
        Contestant("leadline", f"{OURS}:gradient", {**common, "window": WINDOW, "kept": KEPT}),
        Contestant("full attention", f"{OURS}:gradient", {**common, "window": None}),
    )
    title = f"attention forward and backward, window {WINDOW} and {KEPT} kept tokens, T{TOKENS}, {compute}"
    return Case(title, contestants, targets={"full attention": TIMES_A_WINDOW}, tokens=TOKENS, where=where)
