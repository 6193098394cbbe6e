"""Commands that train nothing: the help, and a study whose records are there."""

from experiments.bench.contest import Benchmark, Case, Contestant

OURS = "experiments.bench.ours_startup"
HELP, PAGE = 0.3, 10.0  # seconds


def benchmark() -> Benchmark:
    """Each command in a process of its own, from its start to its end."""
    return Benchmark(
        "startup",
        "How long does one wait for the help, and for the page of a study that has run?",
        (_help(), *(_page(command) for command in ("run", "report"))),
        ("the study: configs/smoke.toml, five studies whose records are made before; run finds them all, report reads them",),
    )


def _help() -> Case:
    contestants = (
        Contestant("leadline", f"{OURS}:command", {"words": ["--help"]}),
        Contestant("python alone", f"{OURS}:python", {"code": "pass"}),
        Contestant("import of typer", f"{OURS}:python", {"code": "import typer"}),
        Contestant("import of jax", f"{OURS}:python", {"code": "import jax"}),
    )
    return Case("leadline --help", contestants, seconds=HELP)


def _page(command: str) -> Case:
    contestants = (
        Contestant("leadline", f"{OURS}:cached", {"name": command}),
        Contestant("import of jax", f"{OURS}:python", {"code": "import jax"}),
    )
    return Case(f"leadline {command} of a study that is recorded", contestants, seconds=PAGE)
