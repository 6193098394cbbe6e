"""The pyramid of imports: who may know whom."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("model", "tokenization", "experiments")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# From the top down. A module imports from its own folder and from those below it.
FOLDERS = (
    "leadline.experiments.cli",
    "leadline.experiments.bench",
    "leadline.experiments.studies",
    "leadline.experiments.training",
    "leadline.experiments.publish",
    "leadline.experiments.measure",
    "leadline.experiments.data",
    "leadline.experiments.records",
    "leadline.experiments.config",
    "leadline.experiments.runtime",
    "leadline.tokenization.formats",
    "leadline.tokenization.bpe",
    "leadline.tokenization.unigram",
    "leadline.tokenization.wordpiece",
    "leadline.tokenization",
    "leadline.model.flax_module",
    "leadline.model.generate",
    "leadline.model.sampling",
    "leadline.model.context_parallel",
    "leadline.model.decoder",
    "leadline.model.layer",
    "leadline.model.block",
    "leadline.model.context",
    "leadline.model.cache",
    "leadline.model.base_bound",
    "leadline.model.positions",
    "leadline.model.attention",
    "leadline.model",
)


def module_name(path: Path) -> str:
    return ".".join(("leadline", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


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
    return next(number for number, folder in enumerate(FOLDERS) if f"{module}.".startswith(f"{folder}."))


def ours(path: Path, *, at_import_only: bool = False) -> set[str]:
    return {name for name in imports(path, at_import_only=at_import_only) if name.split(".")[0] == "leadline"}


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py"], ids=module_name)
def test_imports_only_point_down(path):
    here = module_name(path)
    for name in ours(path):
        assert floor(name) >= floor(here), f"{here} imports {name}, which is above it"


@pytest.mark.parametrize("package", ["model", "tokenization"])
def test_model_and_tokenization_import_nothing_else_of_ours(package):
    for path in FILES:
        if path.is_relative_to(ROOT / package):
            others = {name for name in ours(path) if not name.startswith(f"leadline.{package}")}
            assert not others, f"{module_name(path)} imports {others}"


def test_no_import_bypasses_the_installed_package():
    for path in [*FILES, *(ROOT / "tests").rglob("*.py")]:
        assert not {name.split(".")[0] for name in imports(path)} & set(PACKAGES), path


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
    assert {name for name in knowing if ".bench." not in name} == {"leadline.model.flax_module"}


def test_the_command_line_starts_without_jax():
    heavy = {"jax", "flax", "numpy", "matplotlib"}
    code = f"import sys, leadline.experiments.cli.main; sys.exit(', '.join({heavy} & sys.modules.keys()) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"leadline.experiments.cli.main imports {done.stderr.strip()}"


def test_oracles_are_all_marked():
    """So that `make test` leaves out all of them, and nothing else."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path != Path(__file__):
            marked = "pytest.mark.oracle" in path.read_text(encoding="utf-8")
            assert marked == (path.parent.name == "oracles"), path
