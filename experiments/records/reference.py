"""One paper, report or post, and how it is cited."""

from dataclasses import dataclass

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
        if len(families) > 2 or OTHERS in families:
            return f"{families[0]} et al. {self.year}"
        return f"{' and '.join(families)} {self.year}"

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
