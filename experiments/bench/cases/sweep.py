"""Many small models: trained together or one after the other, and in one program or one each."""

from leadline.experiments.bench.contest import Benchmark, Case, Where, ours
from leadline.experiments.bench.workloads.llama import Size, step_flops

# Models at once, and the ratio that is aimed at for training them one after the other.
MODELS, TARGET = 8, 1.5
ON_ACCELERATOR, TARGET_THERE = 32, 6.0


def benchmark() -> Benchmark:
    """A step at two batch sizes, and the programs of a sweep."""
    return Benchmark(
        "sweep",
        "How much does training the models of a sweep together save?",
        (
            _together(MODELS, TARGET, batch=4, where="cpu"),
            _together(MODELS, TARGET, batch=16, where="cpu"),
            _together(ON_ACCELERATOR, TARGET_THERE, batch=16, where="accelerator"),
            _programs(),
        ),
        (
            "one after the other: the same step of the same models under jit, in a process with one device of all cores; "
            "leadline: one program with a device for each core, or vmap on an accelerator",
            "programs: every compilation up to the losses of two steps of all arms, which differ in position encoding, base, "
            "scaling, learning rate, seed and sink logit",
        ),
    )


def _size(batch: int) -> Size:
    return Size(layers=2, width=64, heads=2, hidden=176, vocabulary=64, length=64, batch=batch)


def _together(models: int, target: float, batch: int, where: Where) -> Case:
    size = _size(batch)
    settings = {"size": size.as_json(), "models": models}
    return Case(
        f"a step of {models} models, {size.title}",
        (
            ours("sweep:together", settings),
            ours("sweep:one_after_another", settings, "one after the other"),
        ),
        targets={"one after the other": target},
        flops=models * step_flops(size),
        tokens=models * size.tokens,
        where=where,
    )


def _programs() -> Case:
    settings = {"size": _size(4).as_json()}
    contestants = (
        ours("sweep:one_program", settings),
        ours("sweep:program_an_arm", settings, "a program an arm"),
    )
    return Case("compiling a sweep of 12 arms and two steps of it", contestants, targets={"a program an arm": 1.0})
