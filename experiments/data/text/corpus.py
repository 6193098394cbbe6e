"""Documents: where text comes from.

A document's text is bytes in valid UTF-8, as on disk: no newline or Unicode form is changed. Texts are read one after the
other, again in every pass over them, so that a corpus may be larger than memory.
"""

import ast
import itertools
import os
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import NoReturn

from leadline.experiments.data.text import formats
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package

# Not the standard library, or its tests, or made for one build of Python and different on each machine.
NOT_STDLIB = re.compile(
    r"site-packages|dist-packages|__pycache__|tests?|idle_test|config-.*|(site|user)customize\.py|_sysconfigdata.*"
)
# What is left out of a folder.
HIDDEN = re.compile(r"\..*|__pycache__")
TOPICS = "pydoc_data/topics"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# The beginning of the name of a data set of the Hugging Face Hub.
PREFIX = "hub:"


@dataclass(frozen=True)
class Document:
    """A name for messages and the text, UTF-8."""

    name: str
    text: bytes


# Returns the documents of a file, each a name and a text, from the beginning at every call.
Source = Callable[[], Iterable[tuple[str, bytes]]]


@dataclass(frozen=True)
class Corpus:
    """The documents of its sources in their order, read in each pass; only one of them need be in memory."""

    sources: tuple[Source, ...]

    def __iter__(self) -> Iterator[Document]:
        return (Document(name, text) for read in self.sources for name, text in read())


def stdlib_documents() -> Corpus:
    """The running Python's standard library and its documentation: a corpus that needs no download.

    First the sources (*.py, sorted by path) without test suites, installed packages and files that belong to one build;
    empty files and files that are not UTF-8 are left out. Then the documentation of the language, one document per topic.
    The corpus, and so its digest, depends on the version of Python and on its packager.

    Raises:
        UserError: when Python came without sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    paths = (path for path in _files(root, NOT_STDLIB) if path.name.endswith(".py") and path != root / f"{TOPICS}.py")
    names = sorted(path.relative_to(root).as_posix() for path in paths)
    if not names:
        raise UserError(f"this Python has no sources of its standard library in {root}; name text files instead")

    def sources() -> Iterator[tuple[str, bytes]]:
        texts = ((name, (root / name).read_bytes()) for name in names)
        return ((name, text) for name, text in texts if text and formats.first_invalid(text) is None)

    return Corpus((sources, lambda: ((f"{TOPICS}/{name}", topics[name].encode()) for name in sorted(topics))))


def docstring_documents() -> Corpus:
    """The docstrings of modules, classes and functions of the standard library, each a document, in the order of its sources.

    Indentation is cleaned as `inspect.cleandoc` does. All of them are kept in memory, some megabytes.

    Raises:
        UserError: when Python came without sources.
    """
    sources = (document for document in stdlib_documents() if document.name.endswith(".py"))
    return Corpus((_kept(pair for source in sources for pair in _docstrings(source)),))


def _docstrings(source: Document) -> Iterator[tuple[str, bytes]]:
    with warnings.catch_warnings(action="ignore"):  # of invalid escapes, which are not ours
        nodes = list(ast.walk(ast.parse(source.text)))
    documented = ((0 if isinstance(node, ast.Module) else node.lineno, node) for node in nodes if isinstance(node, DOCUMENTED))
    for line, node in sorted(documented, key=lambda pair: pair[0]):
        text = (ast.get_docstring(node) or "").encode("utf-8", "surrogatepass")
        if text and formats.first_invalid(text) is None:
            yield f"{source.name}:{line}", text


def documents_named(corpus: str | tuple[str, ...], hub_documents: int | None = None) -> Corpus:
    """The documents of a corpus as a configuration names it: "stdlib", "docstrings", or entries of `text_documents`."""
    if isinstance(corpus, str):
        return {"stdlib": stdlib_documents, "docstrings": docstring_documents}[corpus]()
    return text_documents(corpus, hub_documents)


def text_documents(entries: Sequence[str | Path], hub_documents: int | None = None) -> Corpus:
    """The documents of files, folders and data sets of the Hub, in the order given.

    Of a folder these are its *.txt, *.md, *.rst, *.py and *.jsonl files, also compressed (.gz, .zst), and its *.parquet files,
    at any depth, sorted by path; hidden and empty files are left out. `formats.file_texts` reads files. `hub_texts` reads
    entries that begin with "hub:", at most `hub_documents` documents of each. What can be read only once, a data set of the Hub
    or a pipe, is read here and kept in memory.

    Raises:
        UserError: for a path that does not exist, a folder without text, a data set without `hub_documents` or that `hub_texts`
            refuses. Iterating raises it for what `file_texts` refuses.
    """
    sources = tuple(source for entry in entries for source in _sources(entry, hub_documents))
    if not sources:
        raise UserError("no text was named; name at least one file or folder")
    return Corpus(sources)


def hub_texts(entry: str, most: int) -> list[tuple[str, bytes]]:
    """The first `most` documents of a data set in its own order, read as a stream: name for messages, and text.

    An entry is hub:NAME, hub:NAME:CONFIGURATION or hub:NAME:CONFIGURATION:SPLIT. The split is "train" if none is given;
    an empty CONFIGURATION is the only one, or the default. NAME is that of the Hub, or a local folder. A document is a
    row by its string column "text"; rows without text are left out and do not count.

    Raises:
        UserError: for another form of an entry, a data set that cannot be read or has no such column or no text, and where
            `datasets` is not installed.
    """
    words = entry.removeprefix(PREFIX).split(":")
    if not words[0] or len(words) > 3:
        raise UserError(f"{entry!r}: a data set is hub:NAME, hub:NAME:CONFIGURATION or hub:NAME:CONFIGURATION:SPLIT")
    name, configuration, split = [*words, "", ""][:3]
    datasets = needed_package("datasets", entry, "corpora")
    try:
        rows = datasets.load_dataset(name, configuration or None, split=split or "train", streaming=True)
        columns = rows.column_names or list(next(iter(rows), {}))
        stream = rows.select_columns("text") if "text" in columns else []
        full = ((number, row["text"]) for number, row in enumerate(stream, start=1) if row["text"])
        texts = list(itertools.islice(full, most))
    # What its loaders, file systems and network raise has no common class.
    except Exception as error:
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(f"{entry}: cannot be read ({why}); check name, configuration, split and network") from error
    if "text" not in columns:
        raise UserError(f'{entry}: no column "text"; its columns are {", ".join(map(repr, columns)) or "none at all"}')
    if not texts:
        raise UserError(f'{entry}: no row has text in its column "text"; choose another split or data set')
    return [(f"{entry}:{row}", formats.utf8(f"{entry}, row {row}", text)) for row, text in texts]


def _sources(entry: str | Path, hub_documents: int | None) -> list[Source]:
    if str(entry).startswith(PREFIX):
        if hub_documents is None:
            raise UserError(f"{entry}: the stream of a data set may have no end: say in data.hub_documents how many to read")
        return [_kept(hub_texts(str(entry), hub_documents))]
    try:
        return _files_at(Path(entry))
    except OSError as error:
        _refuse(error)


def _files_at(path: Path) -> list[Source]:
    """A source for each file of a path. OSError for what the system refuses."""
    if path.is_file():
        return [partial(formats.file_texts, path)]
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; check the path")
    if not path.is_dir():
        return [_kept(formats.file_texts(path))]
    texts = [file for file in _files(path, HIDDEN) if formats.is_text(file) and file.stat().st_size > 0]
    files = sorted(texts, key=lambda file: file.relative_to(path).as_posix())
    if not files:
        packed = " or ".join(sorted(formats.COMPRESSED))
        suffixes = f"{', '.join([*sorted(formats.TEXT_SUFFIXES), formats.PARQUET])} (and, but for the last, {packed} after it)"
        raise UserError(f"{path}: no text in this folder; it needs {suffixes} files")
    return [partial(formats.file_texts, file) for file in files]


def _kept(texts: Iterable[tuple[str, bytes]]) -> Source:
    """UserError where there is more than fits into memory, as of a device that never ends."""
    kept, size = [], 0
    for name, text in texts:
        kept.append((name, text))
        size += len(text)
        if size > formats.LARGEST_KEPT:
            raise UserError(
                f"{name}: more than {formats.LARGEST_KEPT} bytes of text that can be read only once; write a file first"
            )
    return lambda: kept


def _files(root: Path, left_out: re.Pattern[str]) -> Iterator[Path]:
    """The files at any depth, without those that have such a name or lie in a folder that has.

    Raises:
        UserError: for a folder that cannot be read.
    """
    for folder, folders, files in os.walk(root, onerror=_refuse):
        folders[:] = [name for name in folders if not left_out.fullmatch(name)]
        yield from (Path(folder, name) for name in files if not left_out.fullmatch(name))


def _refuse(error: OSError) -> NoReturn:
    raise UserError(f"{error.filename}: cannot be read ({error.strerror}); mend or remove it") from error
