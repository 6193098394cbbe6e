"""What is said of a data set before anything is read; tests/oracles/test_hub.py reads some."""

import sys

import pytest

from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.runtime.errors import UserError


@pytest.mark.parametrize("entry", ["hub:", "hub::train", "hub:name:configuration:split:more"])
def test_an_entry_of_another_form_is_named(entry: str) -> None:
    with pytest.raises(UserError, match=f"'{entry}': a data set is hub:NAME, hub:NAME:CONFIGURATION or"):
        text_documents([entry], 3)


def test_a_stream_needs_an_end() -> None:
    with pytest.raises(UserError, match=r"hub:name: .* say in data.hub_documents how many to read"):
        text_documents(["hub:name"])


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"hub:name needs the package datasets .*pip install '\.\[corpora\]'"):
        text_documents(["hub:name"], 3)
