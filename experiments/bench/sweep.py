"""Many small models: trained together beside one after the other, and in one program beside one each."""

from experiments.bench.contest import Benchmark, Case, Contestant, Where
from experiments.bench.llama import Size, step_flops

OURS = "experiments.bench.ours_sweep"
# How many models at once, and how many times as long they should take one after the other.
MODELS, TARGET = 8, 1.5
ON_ACCELERATOR, TARGET_THERE = 32, 6.0


def benchmark() -> Benchmark:
    """Two sizes of a batch; and the programs of a sweep."""
    return Benchmark(
        "sweep",
        "How long does a sweep of small models take beside separate runs?",
        (
            _together(MODELS, TARGET, batch=4, where="cpu"),
            _together(MODELS, TARGET, batch=16, where="cpu"),
            _together(ON_ACCELERATOR, TARGET_THERE, batch=16, where="accelerator"),
            _programs(),
        ),
        (
            "one after the other: the same step of the same models under jit, call by call, in a process with one device of "
            "all cores; leadline: a device a core in one program, or vmap on an accelerator",
            "programs: every compilation of XLA from no program to the losses of two steps of all arms, which differ in base, "
            "scaling, learning rate, seed, ALiBi, RoPE or none, and softmax with or without the extra logit",
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
            Contestant("leadline", f"{OURS}:together", settings),
            Contestant("one after the other", f"{OURS}:one_after_another", settings),
        ),
        targets={"one after the other": target},
        flops=models * step_flops(size),
        tokens=models * size.tokens,
        where=where,
    )


def _programs() -> Case:
    settings = {"size": _size(4).as_json()}
    contestants = (
        Contestant("leadline", f"{OURS}:one_program", settings),
        Contestant("a program an arm", f"{OURS}:program_an_arm", settings),
    )
    return Case("compiling a sweep of 12 arms and two steps of it", contestants, targets={"a program an arm": 1.0})
