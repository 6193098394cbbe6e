"""Inputs with random mistakes, read by children that have little memory and little time."""

import json
import os
import re
import shutil
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from leadline.experiments.config.load import arms_of, load_studies, together
from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.data.text.tokenizers import open_tokenizer, train_and_save
from leadline.experiments.publish.contents import contents_of
from leadline.experiments.records.json_file import seal
from leadline.experiments.records.store import RECORD
from leadline.experiments.runtime.errors import UserError
from tests.faults import strange
from tests.faults.mutation import ODD, mutated, with_mistake
from tests.faults.registry import Trial
from tests.faults.study import STUDY, Workshop, limit_memory

CASES, MEMORY, SECONDS = 50, 2 << 30, 20
ROOT = Path(__file__).parents[2]
Case = Callable[[Path, Random], object]


def _cases(folder: Path, random: Random, case: Case) -> Trial:
    """Calls `case` with a folder of its own and a generator, again and again, in a child; it may raise UserError."""
    seeds = [random.randrange(2**32) for _ in range(CASES)]
    lost: list[str] = []
    while seeds:
        told = folder / "told"
        told.write_text("", encoding="utf-8")
        pid = os.fork()
        if pid == 0:
            try:
                _try_all(seeds, folder, told, case)
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        lines = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
        lost += [line for line in lines if line]
        seeds = seeds[len(lines) :]
        if seeds and status:  # it died of the next one
            lost.append(f"case {seeds[0]}: {signal.strsignal(os.WTERMSIG(status))}")
            seeds = seeds[1:]
        elif seeds:
            lost.append(f"case {seeds[0]}: the child ended")
            seeds = seeds[1:]
    return Trial(CASES, lost)


def _try_all(seeds: list[int], folder: Path, told: Path, case: Case) -> None:
    limit_memory(MEMORY)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with told.open("a", encoding="utf-8") as file:
        for seed in seeds:
            place = folder / str(seed)
            place.mkdir()
            signal.alarm(SECONDS)
            complaint = _complaint(case, place, seed)
            signal.alarm(0)
            shutil.rmtree(place)
            file.write(json.dumps(complaint and f"case {seed}: {complaint}") + "\n")
            file.flush()


def _complaint(case: Case, place: Path, seed: int) -> str:
    """What is wrong with how a case ended."""
    try:
        case(place, Random(seed))
    except UserError as error:
        return "" if str(error).strip() else "an empty message"
    except Exception as error:  # whatever it is, it is a defect
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        return f"{type(error).__name__}: {error}"[:300] + where
    return ""


def configurations(workshop: Workshop, folder: Path, random: Random) -> Trial:  # noqa: ARG001
    """Studies of this repository with mistakes in their values, keys and bytes."""
    texts = [STUDY, *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "configs").glob("*.toml")))]
    texts = [text for text in texts if "extends" not in text and not text.startswith("studies")]

    def case(place: Path, random: Random) -> None:
        text = random.choice(texts)
        path = place / "study.toml"
        if random.random() < 0.4:
            path.write_bytes(mutated(text.encode(), len(text), random))
        else:
            assignments = list(re.finditer(r"(?<== )[^\n]+$", text, re.MULTILINE))
            chosen = random.choice(assignments)
            path.write_bytes(
                (text[: chosen.start()] + _toml(random.choice(ODD)) + text[chosen.end() :]).encode(errors="surrogatepass")
            )
        _planned(path, [])

    return _cases(folder, random, case)


def overrides(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """Words after a study."""
    tree = tomllib.loads(STUDY)
    keys = [
        *_keys(tree),
        "sweep",
        "seeds",
        "claims",
        "figures",
        "selectors",
        "exact",
        "only",
        "extends",
        "studies",
        "train.steps",
    ]

    def case(place: Path, random: Random) -> None:  # noqa: ARG001
        words = []
        for _ in range(random.choice([1, 1, 2])):
            key = random.choice(keys)
            value = random.choice([_toml(random.choice(ODD)), "[" * random.randrange(1, 3000), str(random.choice(ODD))[:9000]])
            word = f"{key}={value}"
            words.append(word if random.random() < 0.8 else _mutated_word(word, random))
        _planned(workshop.config, words)

    return _cases(folder, random, case)


def _mutated_word(word: str, random: Random) -> str:
    return mutated(word.encode(errors="replace"), len(word), random).decode(errors="surrogateescape")


def _planned(path: Path, words: list[str]) -> None:
    """What `leadline run` checks before it reads a text."""
    together(arms_of, [(study, path) for study in load_studies(path, words) if study.exact is None])


def _keys(tree: dict[str, Any], above: str = "") -> list[str]:
    keys = []
    for key, value in tree.items():
        keys += [above + key, *(_keys(value, f"{above}{key}.") if isinstance(value, dict) else ())]
    return keys


def _toml(value: Any) -> str:
    """A value as TOML writes it; None is not."""
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case str():
            return json.dumps(value)
    return str(value)


def records(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """Records with a mistake whose sum says that it was written so: tables and verdicts are made of what is read."""
    whole = workshop.whole

    def case(place: Path, random: Random) -> None:
        results = shutil.copytree(
            whole / "mine", place / "results" / "mine", ignore=shutil.ignore_patterns("checkpoint")
        ).parent
        for path in random.sample(sorted(results.glob(f"mine/*/s*/{RECORD}")), random.choice([1, 1, 4])):
            tree = with_mistake(json.loads(path.read_bytes()), random)
            try:
                data = seal(tree) if isinstance(tree, dict) else json.dumps(tree).encode()
            except (ValueError, UnicodeEncodeError):  # no such JSON can be written
                data = json.dumps(tree).encode()
            path.write_bytes(data)
        contents_of(results, {}, drawn=())

    return _cases(folder, random, case)


def tokenizers(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """Saved tokenizers, files of other makers, and rank files."""
    texts = [workshop.folder / "corpus"]
    sound = folder / "sound"
    for kind, vocabulary in (("bpe", 280), ("unigram", 300), ("wordpiece", 120), ("word", 40), ("character", 60)):
        train_and_save(sound / kind, texts, kind, vocabulary, [])
    strange.published_tokenizers(sound)

    def case(place: Path, random: Random) -> None:
        source = random.choice(sorted(sound.iterdir()))
        target = shutil.copytree(source, place / "tokenizer")
        path = random.choice(sorted(target.iterdir()))
        data = path.read_bytes()
        if path.suffix == ".json" and random.random() < 0.7:
            content = json.dumps(with_mistake(json.loads(data), random), ensure_ascii=random.random() < 0.5)
            path.write_bytes(content.encode(errors="surrogatepass"))
            strange.summed(target)
        else:
            path.write_bytes(mutated(data, len(data), random))
        opened = open_tokenizer(str(strange.spec(target)))
        try:
            opened.decode(opened.encode("Line 7 of document 1.\n été 🙂"))
        except ValueError as error:  # such a text has no ids
            raise UserError(str(error)) from error

    return _cases(folder, random, case)


def corpora(workshop: Workshop, folder: Path, random: Random) -> Trial:  # noqa: ARG001
    """Files of every format, with mistakes; archives that expand, pipes, devices, and links in a circle."""
    files = strange.corpora(folder / "sound")

    def case(place: Path, random: Random) -> None:
        if random.random() < 0.15:
            target = strange.place(place, random)
        else:
            source = random.choice(files)
            target = place / source.name
            data = source.read_bytes()
            target.write_bytes(mutated(data, len(data), random))
        for document in text_documents([target if random.random() < 0.5 else target.parent]):
            document.text.decode("utf-8")

    return _cases(folder, random, case)
