"""The cost of each mechanism, beside the same model or the same attention without it."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.bench.cases.attention import windowed
from leadline.experiments.bench.cases.step import MIDDLE, SMALL
from leadline.experiments.bench.contest import Benchmark, Case, Where, ours
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.arms import Arm, trained_together
from leadline.experiments.bench.workloads.llama import Size, config, stepping
from leadline.experiments.config.model import ModelConfig

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
TIMES_A_WINDOW = 3.0


def with_mechanism(size: Size, compute: str, changes: Mapping[str, Any]) -> Prepared:
    """A step of the benchmarks' model with `changes` in its configuration, from random weights."""
    model = ModelConfig.model_validate({**config(size, compute).model_dump(), **changes})
    return Prepared(stepping(trained_together(size, [Arm(model)])[0]).work)


def _step(name: str, size: Size, compute: str, where: Where) -> Case:
    common = {"size": size, "compute": compute}
    contestants = (
        ours(with_mechanism, {**common, "changes": CHANGES[name]}),
        ours(with_mechanism, {**common, "changes": {}}, "plain"),
    )
    targets = {"plain": LEAST} if where == "accelerator" and name != ALIBI else {}
    return Case(f"{name}, {size.title}, {compute}", contestants, targets=targets, tokens=size.tokens, where=where)


def _window(heads: int, compute: str, where: Where) -> Case:
    common = {"texts": 1, "tokens": TOKENS, "heads": heads, "compute": compute}
    contestants = (
        ours(windowed, {**common, "window": WINDOW, "initial_tokens": INITIAL_TOKENS}),
        ours(windowed, {**common, "window": None}, "full attention"),
    )
    title = f"attention forward and backward, window {WINDOW} and {INITIAL_TOKENS} initial tokens, T{TOKENS}, {compute}"
    return Case(title, contestants, targets={"full attention": TIMES_A_WINDOW}, tokens=TOKENS, where=where)


MECHANISMS = Benchmark(
    "mechanisms",
    "What does a mechanism cost?",
    (
        *(_step(name, *machine) for machine in SIZES for name in CHANGES),
        _window(4, "float32", "cpu"),
        _window(16, "bfloat16", "accelerator"),
    ),
    (
        "leadline: a training step with the mechanism; plain: RoPE, softmax, no gate",
        "the window and the initial tokens are values: the same program computes full attention",
    ),
)
