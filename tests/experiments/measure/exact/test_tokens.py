"""Jobs of tokenizers, and counts by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.experiments.config.exact import Tokens
from leadline.experiments.measure.exact import tokens
from leadline.experiments.measure.exact.job import Job
from leadline.experiments.measure.exact.texts import LANGUAGES, Cost, cost, costs, gini, premium_point, relative, texts_of
from leadline.experiments.measure.exact.tokens import megabytes_per_second, probed, report
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer


def points_of(jobs: list[Job]) -> dict[str, Point]:
    return {job.name: job.compute({}, lambda done, steps: None).point for job in jobs}  # noqa: ARG005


def test_every_tokenizer_is_counted(ranks: Path) -> None:
    exact = Tokens(tokenizers={"byte": "byte", "toy": "tiktoken:toy"}, ranks=str(ranks), speed_documents=1)
    byte, toy = points_of(tokens.jobs(exact)).values()
    english = texts_of("embedded", "eng")["eng"]
    assert byte[reading("tokens", language="eng")] == len(english.encode())
    assert toy[reading("tokens", language="eng")] == len(english.encode()) - english.count("th") - english.count("the")
    assert byte[reading("tokens", probe="12,345,678")] == 10
    assert (byte[reading("unknown_share", language="eng")], byte[reading("vocabulary_size")]) == (0, 259)
    speeds = [key for key in toy if key.quantity == "encoding_speed"]
    assert len(speeds) == 9
    assert not any(key.quantity == "encoding_speed" for key in byte)


def test_most_over_least_is_the_ratio_of_the_extremes() -> None:
    point = premium_point({"eng": Cost(10, 1, 1, 0), "cmn": Cost(8, 1, 1, 0), "mya": Cost(40, 1, 1, 0)}, "eng")
    assert point[reading("largest_premium")] == 4
    assert point[reading("smallest_premium")] == 0.8
    assert point[reading("premium_ratio")] == 5
    assert point[reading("relative_tokens", language="cmn")] == 0.8


def test_languages_stand_in_their_order(tmp_path: Path) -> None:
    for language in ("tlh", "eng", "spa"):
        (tmp_path / f"{language}.txt").write_text("text\n")
    assert list(texts_of([tmp_path], "tlh")) == ["eng", "spa", "tlh"]
    assert list(texts_of("embedded", "eng")) == list(LANGUAGES)
    with pytest.raises(UserError, match="reference = 'fra' is none of the texts: eng, spa, tlh"):
        texts_of([tmp_path], "fra")


def test_a_report_has_a_row_a_text_and_tokenizer() -> None:
    rows = report([ByteTokenizer()], {"eng": "ab", "deu": "äbc"}, "eng", 100, 5.0)
    assert rows[1] == {
        "tokenizer": "byte",
        "language": "German",
        "tokens": 4,
        "relative": 2.0,
        "bytes/token": 1.0,
        "characters/token": 0.75,
        "of 100 tokens": 50,
        "cost": pytest.approx(2e-5),
    }


def test_probes_show_where_tokens_end() -> None:
    rows = {row["text"]: row for row in probed([ByteTokenizer()])}
    assert rows["12,345,678"]["tokens"] == 10
    assert rows["12,345,678"]["pieces"] == "'1' '2' ',' '3' '4' '5' ',' '6' '7' '8'"
    assert str(rows["a family of emoji"]["pieces"]).startswith(r"'\xf0' '\x9f'")


def test_a_text_in_three_sizes() -> None:
    size = cost(ByteTokenizer(), "né")
    assert size == Cost(tokens=3, bytes=3, characters=2, unknown=0)
    assert (size.bytes_per_token, size.characters_per_token) == (1, pytest.approx(2 / 3))
    assert size + size == Cost(tokens=6, bytes=6, characters=4, unknown=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost(ByteTokenizer(), ""), "the byte tokenizer finds no token"),
        (lambda: costs(ByteTokenizer(), {"eng": "a", "mya": ""}), "mya: the byte tokenizer finds no token"),
        (
            lambda: relative(dict.fromkeys(("eng", "mya"), Cost(1, 1, 1, 0)), "fra"),
            "'fra' is none of the texts: eng, mya",
        ),
        (lambda: megabytes_per_second({}, [""]), "no text to encode"),
    ],
)
def test_mistakes_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, UserError), match=message):
        call()


def test_gini() -> None:
    assert gini({"a": 2.0, "b": 2.0}) == 0
    assert gini({"a": 1.0, "b": 3.0}) == pytest.approx(0.25)  # |1 - 3| twice, over 2 * 2 * 4


def test_ways_take_turns() -> None:
    now, order = [0.0], []
    durations = {"fast": iter([0.001, 0.001, 0.009]), "slow": iter([0.004, 0.002, 0.004])}

    def encode_as(name: str, text: str) -> None:
        order.append((name, len(text)))
        now[0] += next(durations[name])

    ways = {name: lambda text, name=name: encode_as(name, text) for name in durations}
    speeds = megabytes_per_second(ways, ["x" * 1000], clock=lambda: now[0])
    assert speeds == {"fast": pytest.approx([1, 1, 1 / 9]), "slow": pytest.approx([0.25, 0.5, 0.25])}
    assert order == [("fast", 1000), ("slow", 1000)] * 3
