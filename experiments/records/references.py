"""The references that studies, claims, tables and quantities cite: `references.json`, and how they are printed.

A key is the first author's family name and the year. The year is that of the venue, or of the preprint where none is given.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("references.json")
OTHERS = "others"


@dataclass(frozen=True)
class Reference:
    """One paper, report or post."""

    key: str  # what sources in configurations and quantities say
    authors: tuple[str, ...]  # "Family, Given", in order; "others" at the end stands for the rest
    year: int  # of publication
    title: str  # as printed
    venue: str = ""  # journal, conference, or who published it; "" for a preprint
    arxiv: str = ""  # the number of the preprint, or ""
    url: str = ""  # where there is no preprint

    @property
    def citation(self) -> str:
        """As in "Gu et al. 2025", "Schuster and Nakajima 2012", "Miller 2023"."""
        families = [author.split(",")[0] for author in self.authors]
        several = len(families) > 2 or OTHERS in families
        return f"{f'{families[0]} et al.' if several else ' and '.join(families)} {self.year}"

    @property
    def link(self) -> str:
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.url

    @property
    def bibtex(self) -> str:
        fields = {
            "author": " and ".join(self.authors),
            "title": "{" + self.title.replace("&", r"\&") + "}",
            "year": str(self.year),
            "howpublished" if not self.venue else "booktitle": self.venue or (f"arXiv:{self.arxiv}" if self.arxiv else ""),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv" if self.arxiv else "",
            "url": self.link,
        }
        lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
        return f"@{'inproceedings' if self.venue else 'misc'}{{{self.key},\n" + ",\n".join(lines) + "\n}\n"


def references() -> dict[str, Reference]:
    """Every reference by its key. ValueError where a key is there twice."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    table = {entry["key"]: Reference(**{**entry, "authors": tuple(entry["authors"])}) for entry in entries}
    if len(table) < len(entries):
        raise ValueError(f"{FILE}: a key is there twice")
    return table


def cite(key: str, where: str = "") -> str:
    """The citation of a key, with the place in it: `Gu et al. 2025, Table 4`. KeyError for a key that is in no table."""
    return ", ".join(part for part in (references()[key].citation, where) if part)


def bibtex(keys: Iterable[str]) -> str:
    """A BibTeX file of these references, each once, by key. KeyError for a key that is in no table."""
    table = references()
    return "\n".join(table[key].bibtex for key in sorted(set(keys)))
