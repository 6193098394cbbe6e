"""One model at many lengths with many frequency tables: tables as values, and tables compiled in."""

from leadline.experiments.bench.contest import Benchmark, Case, ours
from leadline.experiments.bench.workloads.llama import Size

MODEL = Size(layers=2, width=64, heads=2, hidden=176, vocabulary=256, length=128, batch=1)
LENGTHS = tuple(32 << i for i in range(8))
TOKENS = 4096  # at each length, with each table


def benchmark() -> Benchmark:
    """With compilation, and with every program compiled before."""
    return Benchmark(
        "evaluation",
        "How long does a model take at 8 lengths with 6 frequency tables?",
        (_case(compiled=False), _case(compiled=True)),
        (
            f"the mean loss of {TOKENS} tokens at each of {', '.join(map(str, LENGTHS))} with six tables: RoPE as trained, PI, "
            "NTK-aware, NTK-by-parts, YaRN and another base; the value is the sum of the 48 losses",
            "table compiled in: one jit for each table and length, in a process with one device of all cores",
        ),
    )


def _case(compiled: bool) -> Case:
    settings = {"size": MODEL.as_json(), "lengths": LENGTHS, "tokens": TOKENS, "compiled": compiled}
    contestants = (
        ours("evaluation:tables_as_values", settings),
        ours("evaluation:tables_compiled_in", settings, "table compiled in"),
    )
    with_what = "programs compiled before" if compiled else "compilations included"
    title = f"8 lengths x 6 tables, L{MODEL.layers} d{MODEL.width} V{MODEL.vocabulary}, {with_what}"
    # Tables as values save compilations. Without them both do the same work.
    return Case(title, contestants, targets={} if compiled else {"table compiled in": 1.0}, tokens=48 * TOKENS)
