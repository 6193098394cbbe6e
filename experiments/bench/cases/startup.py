"""Commands that train nothing: the help, and a study that is on record."""

from leadline.experiments.bench.contest import Benchmark, Case, ours

HELP, PAGE = 0.3, 10.0  # seconds


def benchmark() -> Benchmark:
    """Each command in a process of its own, from start to end."""
    return Benchmark(
        "startup",
        "How long do the help, and the page of a study that is on record, take?",
        (_help(), *(_page(command) for command in ("run", "report"))),
        ("the study: configs/smoke.toml, whose records are made before; run skips all of them, report reads them",),
    )


def _help() -> Case:
    contestants = (
        ours("startup:command", {"words": ["--help"]}),
        ours("startup:python", {"code": "pass"}, "python alone"),
        ours("startup:python", {"code": "import typer"}, "import of typer"),
        ours("startup:python", {"code": "import jax"}, "import of jax"),
    )
    return Case("leadline --help", contestants, seconds=HELP)


def _page(command: str) -> Case:
    contestants = (
        ours("startup:cached", {"name": command}),
        ours("startup:python", {"code": "import jax"}, "import of jax"),
    )
    return Case(f"leadline {command} of a study that is recorded", contestants, seconds=PAGE)
