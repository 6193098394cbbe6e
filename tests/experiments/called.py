"""The command line, called in the process of the tests."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.cli import main as cli
from leadline.experiments.cli import measure, memory, models, run, tools


class Called:
    """The command line in this process, whose devices are made already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        for module in (run, measure, memory, models, tools):
            monkeypatch.setattr(module, "begin_jax", lambda *_: None)

    def __call__(self, *words: str | Path) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self._monkeypatch.setattr(sys, "argv", ["leadline", *map(str, words)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = self._capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    def mistake(self, *words: str | Path) -> str:
        """The one line that a mistake of the user gives."""
        code, out, err = self(*words)
        assert (code, out) == (2, "")
        assert err.startswith("leadline: ") and err.count("\n") == 1
        return err

    def text(self, *words: str | Path) -> str:
        code, out, err = self(*words)
        assert (code, err) == (0, ""), err
        return out

    def json(self, *words: str | Path) -> dict[str, Any]:
        return json.loads(self.text(*words, "--json"))
