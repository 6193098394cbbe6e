"""Many small models: trained together beside one after the other, and in one program beside one each."""

from experiments.bench.contest import Benchmark, Case, Contestant
from experiments.bench.llama import Size, step_flops

OURS = "experiments.bench.ours_sweep"
MODELS = 8
TARGET = 1.5


def benchmark() -> Benchmark:
    """Two sizes of a batch; and the programs of a sweep."""
    return Benchmark(
        "sweep",
        "How long does a sweep of small models take beside separate runs?",
        (_together(batch=4), _together(batch=16), _programs()),
        (
            "one after the other: the same step of the same models under jit, call by call, in a process with one device of "
            "all cores; leadline: a device a core in one program, or vmap on an accelerator",
            "programs: every compilation of XLA from no program to the losses of two steps of all arms, which differ in base, "
            "scaling, learning rate, seed, ALiBi, RoPE or none, and softmax with or without the extra logit",
        ),
    )


def _size(batch: int) -> Size:
    return Size(layers=2, width=64, heads=2, hidden=176, vocabulary=64, length=64, batch=batch)


def _together(batch: int) -> Case:
    size = _size(batch)
    settings = {"size": size.as_json(), "models": MODELS}
    return Case(
        f"a step of {MODELS} models, {size.title}",
        (
            Contestant("leadline", f"{OURS}:together", settings),
            Contestant("one after the other", f"{OURS}:one_after_another", settings),
        ),
        targets={"one after the other": TARGET},
        flops=MODELS * step_flops(size),
        tokens=MODELS * size.tokens,
    )


def _programs() -> Case:
    settings = {"size": _size(4).as_json()}
    contestants = (
        Contestant("leadline", f"{OURS}:one_program", settings),
        Contestant("a program an arm", f"{OURS}:program_an_arm", settings),
    )
    return Case("compiling a sweep of 12 arms and two steps of it", contestants, targets={"a program an arm": 1.0})
