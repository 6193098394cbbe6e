"""One table of references: keys, citations and BibTeX."""

import re

import pytest

from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.references import bibtex, cite, references


def test_citations_read_as_in_a_paper_and_differ() -> None:
    keys = ("gu2025", "schuster2012", "miller2023", "bloc97")
    assert [cite(key) for key in keys] == ["Gu et al. 2025", "Schuster and Nakajima 2012", "Miller 2023", "bloc97 2023"]
    assert len({reference.citation for reference in references().values()}) == len(references())
    with pytest.raises(KeyError):
        cite("nobody1900")


def test_references_are_complete_and_those_of_quantities_are_there() -> None:
    assert {quantity.source for quantity in QUANTITIES.values()} - {""} <= references().keys()
    for entry in references().values():
        family = re.sub("[^a-z]", "", entry.authors[0].split(",")[0].removesuffix(" Team").lower())
        assert entry.key in (f"{family}{entry.year}", "bloc97")
        assert re.fullmatch(r"\d{4}\.\d{4,5}", entry.arxiv) if entry.arxiv else entry.url.startswith("https://"), entry.key
        assert not entry.arxiv or entry.venue or entry.year == 2000 + int(entry.arxiv[:2]), entry.key


def test_bibtex_has_each_reference_once_with_balanced_braces() -> None:
    text = bibtex([*references(), "gu2025"])
    assert text.count("@") == len(references())
    assert text.count("{") == text.count("}")
    assert "@inproceedings{gu2025,\n  author = {Gu, Xiangming and others},\n" in text
    assert "  title = {{Base of RoPE Bounds Context Length}}" in bibtex(["men2024"])
