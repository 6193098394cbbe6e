"""The command line: exit codes, one line an error, one JSON object, nothing written by mistake."""

import errno
import json
import tempfile
from pathlib import Path

import pytest

from leadline.experiments.cli import main as cli
from leadline.experiments.measure import bound
from tests.experiments.called import Called
from tests.experiments.suite import suite


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "is empty"), (b"good text, then \xff", "not UTF-8 at byte 16 (0xff)"), (None, "no such file")]
)
def test_mistakes_in_the_corpus_are_named(called: Called, tmp_path: Path, content: bytes | None, part: str) -> None:
    config, corpus = suite(tmp_path).with_name("mine.toml"), tmp_path / "corpus.txt"
    if content is not None:
        corpus.write_bytes(content)
    line = called.mistake("run", config, f"data.corpus=['{corpus}']", "--results", tmp_path / "results")
    assert str(corpus) in line
    assert part in line
    assert not list(tmp_path.rglob("manifest-*"))


def test_mistakes_in_the_configuration_and_with_folders_are_named_and_write_nothing(called: Called, tmp_path: Path) -> None:
    config, nowhere = suite(tmp_path), tmp_path / "nowhere"
    for words, part in (
        (
            ("run", config, "mine.model.widht=3", "--results", nowhere),
            "mine.toml: model.widht: unknown key; did you mean 'width'?",
        ),
        (("run", config, "--results", config), f"cannot write results ({config} is no folder); choose another"),
        (("run", config, "--results", config / "results"), f"cannot write results ({config} is no folder); choose another"),
        *(((command, nowhere), "there is no such results folder") for command in ("report", "claims", "publish")),
    ):
        assert part in called.mistake(*words)
    assert not nowhere.exists()
    assert config.is_file()


def test_the_bare_command_shows_its_verbs_in_the_order_of_use(called: Called) -> None:
    text = called.text()
    assert text == called.text("--help")
    verbs = [line.split()[0] for line in text.partition("Commands:")[2].splitlines() if line]
    assert verbs[:4] == ["run", "status", "show", "measure"]
    assert verbs.index("tokenizer") == verbs.index("tokens") + 1
    assert called.text("--version").startswith("leadline ")
    assert called.text("tokenizer") == called.text("tokenizer", "--help")


def test_all_mistakes_of_a_file_are_said_at_once(called: Called, tmp_path: Path) -> None:
    words = ("model.widht=3", "model.position=alibii", "train.steps=-1")
    code, _, err = called("run", suite(tmp_path).with_name("mine.toml"), *words)
    assert code == 2
    assert len(err.splitlines()) == 3
    for part in (
        "model.widht: unknown key",
        "model.position.kind = 'alibii': unknown; did you mean 'alibi'?",
        "train.steps = -1",
    ):
        assert part in err


@pytest.mark.parametrize("words", ["run", "walk", "run a.toml --fast", "bound --head-dim x --length 3", "bound --length 3"])
def test_mistakes_in_the_words_are_one_line(called: Called, words: str) -> None:
    called.mistake(*words.split())


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("--processes 2", "--coordinator"),
        ("--process 0", "--coordinator"),
        ("--address auto", "--executor ray"),
        ("--slurm partition=gpu", "--executor slurm"),
        ("--gpus 1", "--executor ray or slurm, or --device"),
        ("--limit 9", "--decide"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(called: Called, words: str, needs: str) -> None:
    assert called.mistake("run", "a.toml", *words.split()) == f"leadline: {words.split()[0]} needs {needs}\n"


@pytest.mark.parametrize(
    ("words", "idle"),
    [
        ("tokens --probes missing.txt", "TEXT needs the command without --probes"),
        ("tokens --probes --reference fra", "--reference needs the command without --probes"),
        ("tokens --probes --window 9", "--window needs the command without --probes"),
        ("tokens --probes --price 9", "--price needs the command without --probes"),
        ("tokens --ranks missing", "--ranks needs --tokenizer tiktoken:NAME"),
        ("tokenizer trace missing.txt --text a", "TEXT needs the command without --text and --tokenizer"),
        ("tokenizer trace missing.txt --tokenizer byte", "TEXT needs the command without --text and --tokenizer"),
        ("tokenizer trace --tokenizer byte --text a --kind bpe", "--kind needs the command without --tokenizer"),
        ("tokenizer trace --tokenizer byte --text a --set pattern=gpt2", "--set needs the command without --tokenizer"),
        ("tokenizer trace --tokenizer byte --text a --vocabulary 9", "--vocabulary needs --kind unigram"),
        ("tokenizer trace --text a --vocabulary 9", "--vocabulary needs --kind unigram"),
        ("tokenizer trace --tokenizer byte", "--tokenizer needs --text"),
    ],
)
def test_what_a_command_of_tokenizers_would_ignore_is_refused(called: Called, words: str, idle: str) -> None:
    assert called.mistake(*words.split()) == f"leadline: {idle}\n"


@pytest.mark.parametrize(
    "words",
    [
        "tokens --price inf",
        "run a.toml --gpus inf",
        "run a.toml --expiry inf",
        "generate a --temperature inf",
        "generate a --length-penalty nan",
    ],
)
def test_numbers_of_options_are_finite(called: Called, words: str) -> None:
    assert called.mistake(*words.split()).endswith(f"'{words.split()[-2]}': {words.split()[-1]} is not finite.\n")


@pytest.mark.parametrize("words", ["rope", "--case long", "--rounds 3", "--results bench", "--without-avx512"])
def test_a_list_of_benchmarks_refuses_what_is_of_timing(called: Called, words: str) -> None:
    name = words.split()[0] if words.startswith("--") else "NAME"
    assert called.mistake("bench", "--list", *words.split()) == f"leadline: {name} needs the command without --list\n"


def test_what_the_memory_does_not_hold_is_one_line(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    def large(*_: object, **__: object) -> int:
        raise MemoryError("Unable to allocate 61.0 TiB")

    monkeypatch.setattr(cli, "app", large)
    assert called.mistake().startswith("leadline: Unable to allocate 61.0 TiB; lower train.batch")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "standard output or a file: No space left on device"),
        (OSError(errno.ENOSPC, "No space left on device", "a.json"), "a.json: No space left on device"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (OSError("no such socket"), "no such socket"),
        (FileNotFoundError(errno.ENOENT, "No such file", b"a.json"), "a.json: No such file"),
        (OSError(errno.EIO, "Input/output error", 3), "3: Input/output error"),
    ],
)
def test_an_error_of_the_system_names_its_file_if_it_has_one(
    called: Called, monkeypatch: pytest.MonkeyPatch, error: OSError, line: str
) -> None:
    def failing(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(cli, "app", failing)
    code, _, err = called()
    assert (code, err) == (1, f"leadline: {line}\n")


def test_a_bound_that_the_memory_does_not_hold_names_its_length(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    def large(*_: object, **__: object) -> int:
        raise MemoryError

    monkeypatch.setattr(bound, "bound_report", large)
    line = called.mistake("bound", "--head-dim", "4", "--length", "64")
    assert line == "leadline: --length 64: out of memory; lower it, or raise --every\n"


def test_a_line_repeats_little_of_a_long_value(called: Called, tmp_path: Path) -> None:
    line = called.mistake("run", suite(tmp_path).with_name("mine.toml"), f"train.steps={'x' * 100_000}")
    assert len(line) < 1300
    assert "mine.toml: train.steps = 'xxx" in line and "xxx': should be a valid integer" in line


def test_the_bound_is_an_infimum_between_islands(called: Called) -> None:
    words = ("bound", "--head-dim", "128", "--length", "256")
    report = called.json(*words)
    assert {"infimum", "largest_infeasible", "islands", "published"} <= set(report)
    assert 0 < report["infimum"] <= report["largest_infeasible"]
    assert all(len(pair) == 2 for pair in report["islands"])
    assert f"{report['infimum']:.8g}" in called.text(*words)
    # What holds at every distance up to N holds below N, and what holds there holds at every eighth distance.
    inclusive, eighth = (called.json(*words, *more)["infimum"] for more in (("--inclusive",), ("--every", "8")))
    assert inclusive >= report["infimum"] > eighth
    assert "largest that fails none: every base from 1 on holds" in called.text("bound", "--head-dim", "64", "--length", "1")
    for dim, every, message in (("3", "1", "head dim must be even"), ("4", "0", "every must be at least 1")):
        assert message in called.mistake("bound", "--head-dim", dim, "--length", "8", "--every", every)


@pytest.mark.usefixtures("in_use")
def test_a_dry_run_trains_nothing(called: Called, tmp_path: Path) -> None:
    words = ("run", suite(tmp_path), "--dry-run", "--results", tmp_path / "results")
    code, out, _ = called(*words, "--json")
    assert [code, *(row["study"] for row in json.loads(out)["arms"])] == [0, *["mine"] * 2, *["bases"] * 2]
    code, out, err = called(*words)
    assert code == 0
    assert "models to train: 4; programs: 1; about " in out
    assert "mine: train.warmup does not end within train.steps of softmax, learned" in err
    assert not (tmp_path / "results").exists()


def test_tokens_counts_parallel_texts(called: Called) -> None:
    rows = called.json("tokens")["texts"]
    assert len({row["language"] for row in rows}) == len(rows) > 10
    assert "Burmese" in called.text("tokens")
    assert "tlh" in called.mistake("tokens", "--reference", "tlh")


def test_a_tokenizer_is_traced_on_one_text(called: Called) -> None:
    words = ("tokenizer", "trace", "--text", "abab")
    assert [row["left"] for row in called.json(*words)["steps"]] == ["'a'", "'ab'"]
    line = called.mistake(*words, "--tokenizer", "byte")
    assert "byte: the steps of encoding are shown for a tokenizer.json" in line


def test_a_defect_is_one_line_and_keeps_its_traceback(called: Called, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, _, line = called()
    assert code == cli.FAILURE
    assert line.startswith("leadline: RuntimeError: no such luck")
    assert line.count("\n") == 1
    [log] = tmp_path.glob("leadline-*.log")
    assert "no such luck" in log.read_text()
    assert str(log) in line


def test_an_arm_of_packed_records_is_shown_though_it_has_no_folder(called: Called) -> None:
    results = Path(__file__).parents[3] / "docs" / "results"
    rows = called.json("show", results / "sinks")["arms"]
    assert called.json("show", results / "sinks" / rows[0]["arm"])["arms"][0]["seeds"] == rows[0]["seeds"]
    assert "there are no records" in called.mistake("show", results / "nothing")
