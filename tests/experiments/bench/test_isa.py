"""What hides AVX-512 from contestants."""

import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from leadline.experiments.bench import isa
from leadline.experiments.runtime.errors import UserError


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library of a jaxlib."""
    spec = ModuleSpec("jaxlib", None)
    spec.submodule_search_locations = [str(tmp_path / "site" / "jaxlib")]
    (tmp_path / "site" / "jaxlib").mkdir(parents=True)
    monkeypatch.setattr(isa, "find_spec", lambda _: spec)
    return tmp_path / "site" / "jaxlib" / "lib.so"


def test_a_copy_of_jaxlib_gets_other_answers(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.write_bytes(b"a" + isa.QUESTION + b"b" + isa.QUESTION)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=256")
    monkeypatch.setenv("PYTHONPATH", "mine")
    variables = isa.without_avx512(tmp_path / "copy")
    assert (tmp_path / "copy" / "jaxlib" / "lib.so").read_bytes() == b"a" + isa.ANSWER + b"b" + isa.ANSWER
    assert isa.QUESTION in library.read_bytes()
    assert variables["XLA_FLAGS"] == "--xla_cpu_prefer_vector_width=256 --xla_cpu_max_isa=AVX2"
    assert variables["PYTHONPATH"] == os.pathsep.join([str(tmp_path / "copy"), "mine"])


def test_a_jaxlib_that_does_not_ask_is_an_error(library: Path, tmp_path: Path) -> None:
    library.write_bytes(b"ab")
    with pytest.raises(UserError, match="no question for AVX-512"):
        isa.without_avx512(tmp_path / "copy")
