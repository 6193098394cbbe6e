"""The pyramid of imports: who may know whom."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(path for package in ("model", "tokenization", "experiments") for path in (ROOT / package).rglob("*.py"))

# From the top down. A module belongs to the longest name that it begins with, and imports nothing above its own floor.
FLOORS: list[set[str]] = [
    {f"experiments.{name}" for name in ("cli", "cli_bench", "cli_generate", "cli_tokens")},
    {"experiments.bench"},
    {"experiments.studies.run", "experiments.studies.plan"},
    {"experiments.studies.publish", "experiments.claims"},
    {"experiments.studies"},
    {
        f"experiments.{name}"
        for name in ("arms", "loop", "anatomy", "group", "evidence", "generation", "publish.page", "publish.readme")
    },
    {f"experiments.{name}" for name in ("train", "optimizer", "population", "evaluate", "identity", "progress", "publish")},
    {f"experiments.{name}" for name in ("build", "data", "tokenizers", "measure", "load", "record", "checkpoint")},
    {"experiments.position_tables"},
    {"experiments.config"},
    {"experiments.data.retrieval.vocabulary"},  # the names of the tasks, which a configuration may say
    {f"experiments.{name}" for name in ("allocator", "errors", "interrupt", "cores", "console", "program_cache")},
    {"model.flax_module", "model.generate"},
    {"model.decoder"},
    {"model.block"},
    {"model", "tokenization", "experiments"},  # what is left; of experiments, the package alone
]
OURS = ("model", "tokenization", "experiments")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_name(path) for path in FILES}


def imports(path: Path, *, at_import_only: bool = False) -> Iterator[str]:
    """The modules that a file imports, inside functions too unless `at_import_only`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _outside_functions(tree) if at_import_only else ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, level=0, names=names) if module is not None:
                for alias in names:
                    member = f"{module}.{alias.name}"
                    yield member if member in NAMES else module
            case ast.ImportFrom():
                pytest.fail(f"{path}: relative imports hide who knows whom")


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _outside_functions(child)


def floor(module: str) -> int:
    prefixes = {name: number for number, names in enumerate(FLOORS) for name in names}
    parts = module.split(".")
    return next(prefixes[name] for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in prefixes)


def ours(path: Path, *, at_import_only: bool = False) -> set[str]:
    return {name for name in imports(path, at_import_only=at_import_only) if name.split(".")[0] in OURS}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_only_point_down(path):
    here = module_name(path)
    for name in ours(path):
        assert floor(name) >= floor(here), f"{here} imports {name}, which is above it"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_every_module_has_a_floor(path):
    name = module_name(path)
    if name.startswith("experiments."):
        assert floor(name) < floor("experiments"), f"{name} stands on no floor: give it one in this file"


@pytest.mark.parametrize("package", ["model", "tokenization"])
def test_what_is_below_knows_nothing_of_what_is_above(package):
    for path in FILES:
        if path.is_relative_to(ROOT / package):
            assert {name.split(".")[0] for name in ours(path)} <= {package}, (
                f"{module_name(path)} imports another package of ours"
            )


def test_modules_form_no_circle():
    above = {module_name(path): ours(path, at_import_only=True) & NAMES for path in FILES}
    while free := {name for name, needs in above.items() if not needs & above.keys()}:
        above = {name: needs for name, needs in above.items() if name not in free}
    assert not above, f"these import each other in a circle, or import one that does: {sorted(above)}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_nothing_private_of_jax_is_imported(path):
    assert not [name for name in imports(path) if name.startswith(("jax._", "jaxlib"))]


def test_only_the_flax_module_and_what_is_compared_with_know_nnx():
    knowing = {module_name(path) for path in FILES if "nnx" in path.read_text(encoding="utf-8")}
    assert {name for name in knowing if not name.startswith("experiments.bench.")} == {"model.flax_module"}


def test_the_command_line_starts_without_jax():
    code = "import sys, experiments.cli; sys.exit(', '.join({'jax', 'flax', 'numpy', 'matplotlib'} & sys.modules.keys()) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"importing experiments.cli imports {done.stderr.strip()}"


def test_oracles_are_all_marked():
    """So that `make test` leaves out all of them, and nothing else."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path != Path(__file__):
            marked = "pytest.mark.oracle" in path.read_text(encoding="utf-8")
            assert marked == (path.parent.name == "oracles"), path
