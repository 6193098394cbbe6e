"""The pyramid of imports: who may know whom."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("model", "tokenization", "experiments")
FACADE = ROOT / "src" / "leadline" / "functions.py"
FILES = sorted([FACADE, *(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))])

# From the top down. A module imports from its own folder and from those below it.
FOLDERS = (
    "leadline.functions",
    "leadline.experiments.cli",
    "leadline.experiments.bench",
    "leadline.experiments.studies",
    "leadline.experiments.executors",
    "leadline.experiments.runs",
    "leadline.experiments.training",
    "leadline.experiments.publish",
    "leadline.experiments.measure",
    "leadline.experiments.published",
    "leadline.experiments.data",
    "leadline.experiments.records",
    "leadline.experiments.config",
    "leadline.experiments.trackers",
    "leadline.experiments.runtime",
    "leadline.tokenization.formats",
    "leadline.tokenization.bpe",
    "leadline.tokenization.unigram",
    "leadline.tokenization.wordpiece",
    "leadline.tokenization",
    "leadline.model.flax_module",
    "leadline.model.transduce",
    "leadline.model.generate",
    "leadline.model.sampling",
    "leadline.model.context_parallel",
    "leadline.model.encoder_decoder",
    "leadline.model.extend",
    "leadline.model.decoder_loss",
    "leadline.model.decoder",
    "leadline.model.checks",
    "leadline.model.layer",
    "leadline.model.block",
    "leadline.model.context",
    "leadline.model.cross_attention",
    "leadline.model.cache",
    "leadline.model.base_bound",
    "leadline.model.positions",
    "leadline.model.attention",
    "leadline.model",
)


def module_name(path: Path) -> str:
    name = ".".join(("leadline", *path.relative_to(ROOT).with_suffix("").parts))
    return name.removeprefix("leadline.src.").removesuffix(".__init__")


NAMES = {module_name(path) for path in FILES}


@cache
def imports(path: Path, *, at_import_only: bool = False) -> frozenset[str]:
    """The modules that a file imports, inside functions too unless `at_import_only`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for node in _outside_functions(tree) if at_import_only else ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=module, level=0, names=aliases) if module is not None:
                members = {f"{module}.{alias.name}" for alias in aliases}
                names |= {member if member in NAMES else module for member in members}
            case ast.ImportFrom():
                pytest.fail(f"{path}: relative imports hide who knows whom")
    return frozenset(names)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _outside_functions(child)


def floor(module: str) -> int:
    return next(number for number, folder in enumerate(FOLDERS) if f"{module}.".startswith(f"{folder}."))


def ours(path: Path, *, at_import_only: bool = False) -> set[str]:
    return {name for name in imports(path, at_import_only=at_import_only) if name.split(".")[0] == "leadline"}


def test_imports_only_point_down():
    pairs = [(module_name(path), name) for path in FILES if path.name != "__init__.py" for name in ours(path)]
    assert [f"{here} imports {name}, which is above it" for here, name in pairs if floor(name) < floor(here)] == []


def test_tokenization_imports_nothing_of_the_model():
    here = [path for path in FILES if path.is_relative_to(ROOT / "tokenization")]
    assert [path for path in here for name in ours(path) if not name.startswith("leadline.tokenization")] == []


def test_no_import_bypasses_the_installed_package():
    for path in [*FILES, *(ROOT / "tests").rglob("*.py")]:
        assert not {name.split(".")[0] for name in imports(path)} & set(PACKAGES), path


def test_modules_form_no_circle():
    above = {module_name(path): ours(path, at_import_only=True) & NAMES for path in FILES}
    while free := {name for name, needs in above.items() if not needs & above.keys()}:
        above = {name: needs for name, needs in above.items() if name not in free}
    assert not above, f"these import each other in a circle, or import one that does: {sorted(above)}"


def test_nothing_private_of_jax_is_imported():
    assert [path for path in FILES for name in imports(path) if name.startswith(("jax._", "jaxlib"))] == []


def test_only_the_flax_module_and_what_is_compared_with_know_nnx():
    knowing = {module_name(path) for path in FILES if "nnx" in path.read_text(encoding="utf-8")}
    assert {name for name in knowing if ".bench." not in name} == {"leadline.model.flax_module"}


def test_oracles_are_all_marked():
    """So that `make test`, which leaves out the folder, leaves out all of them, and nothing else."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path != Path(__file__):
            marked = "pytest.mark.oracle" in path.read_text(encoding="utf-8")
            assert marked == (path.parent.name == "oracles"), path
