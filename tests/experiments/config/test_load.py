"""Configuration files, overrides and arms, and what is said of files and words that cannot be read."""

import itertools
import math
from pathlib import Path

import pytest

from leadline.experiments.config.attention import FixedSink
from leadline.experiments.config.data import BackcopyData, Mixture, TextData
from leadline.experiments.config.exact import BaseBound
from leadline.experiments.config.load import arms_of, load_studies, named_arms
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.paths import with_paths
from leadline.experiments.config.position import Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import Yarn
from leadline.experiments.config.study import Start
from leadline.experiments.runtime.errors import UserError
from tests.experiments.configured import EXTRAPOLATION, SINKS, configured_arms, studies_of, write_config

FILES = {
    "sinks": SINKS,
    "bases": 'study = "rope_base"\n[exact]\nkind = "base_bound"\nlengths = [64]\n',
    "suite": 'studies = ["sinks.toml", "bases.toml"]',
    "other_key": 'studies = ["sinks.toml"]\nseeds = [1]',
    "no_list": 'studies = "sinks.toml"',
    "empty": "studies = []",
    "numbers": "studies = [3]",
    "nowhere": 'studies = ["missing.toml"]',
    "comma": 'study = "sinks"\nseeds = [0,,1]\n',
    "deep": f"a = {'[' * 5000}",
    "deep_keys": f"a{'.a' * 3000} = 1",
    "deep_tables": f"a = {'{a = ' * 40}1{'}' * 40}",
    "date": "a = 2024-99-99",
    "large": f"seeds = [{2**63}]",
    "twice": 'studies = ["sinks.toml", "other.toml"]',
    "other": SINKS,
    "versions": 'studies = ["sinks.toml", "version.toml"]',
    "version": SINKS.replace('"sinks"', '"sinks.v2"'),
    "latin": 'study = "caf\xe9"',
    "here": 'extends = "there.toml"',
    "there": 'extends = "here.toml"',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="latin-1")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("missing.toml", [], r"missing\.toml: there is no such file"),
        ("", [], "is a folder"),
        ("comma.toml", [], "line 2"),
        *(
            (f"{name}.toml", [], rf"{name}\.toml: not TOML: nested too deeply$")
            for name in ("deep", "deep_keys", "deep_tables")
        ),
        ("date.toml", [], r"date\.toml: not TOML: "),
        ("large.toml", [], r"large\.toml: not TOML: an integer has more than 64 bits$"),
        ("sinks.toml", [f"train{'.a' * 3000}=1"], "the key has more than 32 parts$"),
        ("latin.toml", [], r"latin\.toml: not UTF-8 at byte 12"),
        ("here.toml", [], "extend each other in a circle"),
        *(("sinks.toml", [word], "an override is key=value") for word in ("train.steps", "=3", "")),
        ("other_key.toml", [], "'seeds'"),
        *((f"{name}.toml", [], "studies: a list of TOML files") for name in ("no_list", "empty", "numbers")),
        ("nowhere.toml", ["sinks.train.steps=1"], r"missing\.toml: there is no such file"),
        *(
            ("suite.toml", [word], "in a suite a key begins with its study, sinks or rope_base")
            for word in ("train.steps=3", "sinks", "sinks=3", "rope.lengths=[1]")
        ),
        ("suite.toml", ["rope_base.exact.lengths=[]"], r"bases\.toml: exact\.lengths"),
        ("twice.toml", [], r"sinks\.toml and .*other\.toml are both called 'sinks': give each a name of its own$"),
    ],
)
def test_what_cannot_be_read_is_named(folder: Path, name: str, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_studies(folder / name, words)


def test_words_of_a_suite_begin_with_their_study(folder: Path) -> None:
    sinks, base = load_studies(folder / "suite.toml", ["sinks.train.steps=3", "rope_base.exact.head_dims=[8]"])
    assert sinks.train is not None and sinks.train.steps == 3
    assert base.exact == BaseBound(head_dims=(8,), lengths=(64,))


def test_a_study_of_a_suite_may_have_a_dot_in_its_name(folder: Path) -> None:
    studies = load_studies(folder / "versions.toml", ["sinks.train.steps=3", "sinks.v2.train.steps=4"])
    assert [study.train and study.train.steps for study in studies] == [3, 4]


def test_what_is_not_written_has_its_default(tmp_path: Path) -> None:
    (study,) = load_studies(write_config(tmp_path, SINKS))
    assert study.seeds == (0, 1)
    assert isinstance(study.data, BackcopyData) and study.train is not None and study.model is not None
    assert (study.data.zipf, study.train.clip, study.model.sink.kind) == (0.9, 1.0, "none")
    assert [arm.name for arm in configured_arms(tmp_path, SINKS)] == ["base"]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert [study.study for study in studies_of(tmp_path, f"\ufeff{SINKS}")] == ["sinks"]


def test_words_override_the_file(tmp_path: Path) -> None:
    words = ("train.steps=7", "model.position={kind='alibi'}", "model.norm=layer", "model.sink={kind='fixed', logit=-inf}")
    (arm,) = configured_arms(tmp_path, SINKS, *words, "model.heads=3", "model.head_dim=8")
    assert (arm.train.steps, arm.model.position, arm.model.norm) == (7, Alibi(), "layer")
    assert (arm.model.sink, arm.model.heads, arm.model.head_dim) == (FixedSink(logit=-math.inf), 3, 8)


MIXTURE = """data.corpus={ kind = "mixture", parts = [
    { corpus = ["code/", "more.txt"], weight = 3 }, { corpus = "stdlib", weight = 0.5 }
] }"""


def test_an_arm_may_have_a_mixture_or_files(tmp_path: Path) -> None:
    mixed, plain = configured_arms(tmp_path, EXTRAPOLATION, f"arms.mixed.{MIXTURE}", "arms.plain.data.corpus=['book.txt']")
    assert isinstance(mixed.data, TextData) and isinstance(mixed.data.corpus, Mixture) and isinstance(plain.data, TextData)
    assert [(part.corpus, part.weight) for part in mixed.data.corpus.parts] == [(("code/", "more.txt"), 3.0), ("stdlib", 0.5)]
    assert plain.data.corpus == ("book.txt",)


def test_an_arm_merges_tables_of_its_kind_and_replaces_others(tmp_path: Path) -> None:
    text = SINKS + '[arms.other_base]\nmodel.position = { base = 7.0 }\n[arms.alibi]\nmodel.position = { kind = "alibi" }\n'
    text += '[arms.yarn]\nmodel.position.scaling = { kind = "yarn", factor = 4.0 }\ntrain.steps = 3\n'
    other, alibi, yarn = configured_arms(tmp_path, text, "model.position.interleaved=true")
    assert other.model.position == Rope(base=7.0, interleaved=True)
    assert alibi.model.position == Alibi()
    assert yarn.model.position == Rope(base=10000.0, interleaved=True, scaling=Yarn(factor=4.0))
    assert [arm.train.steps for arm in (other, alibi, yarn)] == [10, 10, 3]


def test_a_sweep_is_the_cross_product(tmp_path: Path) -> None:
    sweep = "sweep={ 'model.position.base' = [1e2, 1e4, 1e6], 'train.steps' = [5, 6] }"
    arms = configured_arms(tmp_path, SINKS + '[arms.a]\n[arms.b]\nmodel.norm = "layer"\n', sweep)
    settings = [(arm.name, arm.model.position, arm.train.steps, arm.model.norm) for arm in arms]
    assert settings == [
        (f"{arm}_base={base}_steps={steps}", Rope(base=base), steps, norm)
        for (arm, norm), base, steps in itertools.product((("a", "rms"), ("b", "layer")), (1e2, 1e4, 1e6), (5, 6))
    ]


def test_released_models_are_arms_in_the_order_of_the_file(tmp_path: Path) -> None:
    models = "".join(
        f'[exact.models.{name}]\nlabel = "{name.upper()}"\nvocabulary = 7\ncontext = {context}\nmodel.position = "nope"\n'
        for name, context in (("b", 8), ("a", 9))
    )
    (study,) = studies_of(tmp_path, f'study = "s"\n[exact]\nkind = "released"\n{models}')
    assert list(named_arms(study).items()) == [("b", ("b", "B")), ("a", ("a", "A"))]


def test_a_config_is_frozen_and_hashable() -> None:
    model = ModelConfig(position=Alibi())
    assert hash(model) == hash(ModelConfig(position=Alibi()))
    with pytest.raises(ValueError, match="frozen"):
        model.width = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_an_arm_that_starts_from_another_has_its_settings_and_its_own(tmp_path: Path) -> None:
    words = (
        "arms.gated={ model.gate = { kind = 'output', per = 'head' }, train.steps = 20 }",
        "arms.tuned={ start = 'gated', data.length = 128, measure.sink.length = 128 }",
        "arms.further={ start = 'tuned', train.learning_rate = 1e-5 }",
    )
    gated, tuned, further = configured_arms(tmp_path, SINKS, *words)
    assert (gated.start, gated.original_length) == (None, 64)
    assert tuned.start == Start(arm="gated", length=64, steps=20)
    assert (tuned.model, tuned.train.steps, tuned.data.length, tuned.original_length) == (gated.model, 20, 128, 64)
    assert further.start == Start(arm="tuned", length=64, steps=40)
    assert (further.data.length, further.train.learning_rate, tuned.train.learning_rate) == (128, 1e-5, 1e-3)


def test_in_a_sweep_an_arm_starts_from_the_one_of_equal_values(tmp_path: Path) -> None:
    words = ("sweep={ 'model.position.base' = [1e2, 1e4] }", "arms={ a = {}, b = { start = 'a' } }")
    starts = {arm.name: arm.start and arm.start.arm for arm in configured_arms(tmp_path, SINKS, *words)}
    first, second = "a_base=100.0", "a_base=10000.0"
    assert starts == {first: None, second: None, "b_base=100.0": first, "b_base=10000.0": second}


def test_a_file_extends_another(tmp_path: Path) -> None:
    write_config(tmp_path, EXTRAPOLATION + '[arms.a]\nlabel = "A"\n', "base.toml")
    path = write_config(tmp_path, 'extends = "base.toml"\nstudy = "mine"\n[train]\nsteps = 3\n[arms.a]\ntrain.batch = 8\n')
    (study,) = load_studies(path)
    (arm,) = arms_of(study, path)
    assert (study.study, arm.label, arm.train.steps, arm.train.batch, arm.data.length) == ("mine", "A", 3, 8, 16)


CLAIMS = "".join(
    f"""[[claims]]
id = "{name}"
statement = "A statement."
left = {{ quantity = "loss", arm = "all" }}
relation = "below"
right = 1.0
"""
    for name in ("first-claim", "second-claim")
)


def test_a_file_leaves_out_claims_of_the_one_it_extends(tmp_path: Path) -> None:
    write_config(tmp_path, SINKS + "[selectors]\nall = {}\n" + CLAIMS, "base.toml")
    path = write_config(tmp_path, 'extends = "base.toml"\nwithout_claims = ["second-claim"]\n')
    assert [claim.id for claim in load_studies(path)[0].claims] == ["first-claim"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extends = "base.toml"\nwithout_claims = ["second"]\n', "no claim of the extended file is 'second'; did you mean"),
        ('extends = "base.toml"\nwithout_claims = "first-claim"\n', "give a list of ids"),
        (SINKS.replace("study", 'without_claims = ["first-claim"]\nstudy', 1), "give extends"),
        ('extends = "words.toml"\nwithout_claims = ["first-claim"]\n', "claims.0 = 'a word': "),
    ],
)
def test_claims_that_cannot_be_left_out_are_named(text: str, message: str, tmp_path: Path) -> None:
    write_config(tmp_path, SINKS + "[selectors]\nall = {}\n" + CLAIMS, "base.toml")
    write_config(tmp_path, 'claims = ["a word", { id = "first-claim" }]' + SINKS, "words.toml")
    with pytest.raises(UserError, match=message):
        load_studies(write_config(tmp_path, text))


ARMS = SINKS + "[arms.first]\n[arms.second]\nstart = 'first'\n[arms.third]\n"


@pytest.mark.parametrize(
    ("only", "running"),
    [("[]", ["first", "second", "third"]), ('["third"]', ["third"]), ('["second"]', ["first", "second"])],
)
def test_only_runs_the_arms_that_it_names_and_those_that_they_start_from(tmp_path: Path, only: str, running: list[str]) -> None:
    assert [arm.name for arm in configured_arms(tmp_path, ARMS, f"only={only}")] == running


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write_config(
        tmp_path / "below",
        EXTRAPOLATION.replace("length = 16 }\ntrain", 'length = 16, corpus = ["a.txt", "hub:b", "/c"] }\ntrain'),
        "base.toml",
    )
    path = write_config(
        tmp_path, 'extends = "below/base.toml"\narms.mixed.data.corpus = { parts = [{ corpus = ["d"], weight = 1 }] }'
    )
    (study,) = load_studies(path, ["arms.word.data.corpus=['e']"])
    mixed, word = (arm.data for arm in arms_of(study, path))
    assert study.model_dump()["data"]["corpus"] == (str(tmp_path / "below" / "a.txt"), "hub:b", "/c")
    assert mixed.model_dump()["corpus"]["parts"][0]["corpus"] == (str(tmp_path / "d"),)
    assert word.model_dump()["corpus"] == ("e",)


@pytest.mark.parametrize("table", ["arms", "selectors"])
def test_the_table_of_tokenizers_is_that_of_exact_studies(tmp_path: Path, table: str) -> None:
    """And not an arm or a selector of this name."""
    tree = {table: {"tokenizers": {"label": "softmax"}}, "exact": {"tokenizers": {"byte": "byte", "mine": "tokenizer.json"}}}
    placed = with_paths(tree, tmp_path)
    assert placed == tree | {"exact": {"tokenizers": {"byte": "byte", "mine": str(tmp_path / "tokenizer.json")}}}


@pytest.mark.parametrize(
    ("exact", "place"),
    [
        ('{ kind = "coverage", sizes = [1], texts.a = { label = "A", unit = "words", files = ["b.txt"] } }', ["b.txt"]),
        ('{ kind = "published", model = "folder", measure = {} }', "folder"),
        ('{ kind = "published", model = "hub:b", measure = {} }', None),
        ('{ kind = "published", model = "package:b", measure = {} }', None),
    ],
)
def test_the_texts_and_models_of_exact_studies_are_placed_too(
    tmp_path: Path, exact: str, place: str | list[str] | None
) -> None:
    (study,) = studies_of(tmp_path, f'study = "s"\nexact = {exact}')
    tree = study.model_dump(mode="json")["exact"]
    named = tree["texts"]["a"]["files"] if "texts" in tree else tree["model"]
    placed = [str(tmp_path / name) for name in place] if isinstance(place, list) else place and str(tmp_path / place)
    assert named == placed if place else ":b" in named and str(tmp_path) not in named


STATED = """
[selectors.arm]
[[claims]]
id = "xiao-window"
statement = "A window without initial tokens has twice the perplexity."
erratum = "A window of many tokens loses the sink."
source = "xiao2024"
where = "Table 3"
published = "27.87"
shown_at = "160M parameters"
left = { quantity = "loss", arm = "arm" }
relation = "above"
right = 2.0
"""
RESTATED = """
study = "published"
exact = { kind = "precision", lengths = [1] }
[selectors.arm]
[[claims]]
id = "large-window"
restates = "xiao-window"
left = { quantity = "loss", arm = "arm" }
relation = "above"
right = 3.0
"""


def test_a_claim_has_the_statement_of_the_one_that_it_restates(tmp_path: Path) -> None:
    write_config(tmp_path, SINKS + STATED, "sinks.toml")
    (study,) = load_studies(write_config(tmp_path, RESTATED, "published.toml"))
    (stated,) = load_studies(tmp_path / "sinks.toml")[0].claims
    (claim,) = study.claims
    assert (claim.id, claim.right) == ("large-window", 3.0)
    taken = {"statement", "erratum", "source", "where", "published", "shown_at"}
    assert claim.model_dump(include=taken) == stated.model_dump(include=taken)
    (tmp_path / "below").mkdir()
    below = write_config(tmp_path / "below", 'extends = "../published.toml"\nstudy = "longer"\n')
    assert load_studies(below)[0].claims == study.claims


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RESTATED.replace('"xiao-window"', '"xiao-windw"'),
            r"restates = 'xiao-windw': no claim .*did you mean 'xiao-window'\?",
        ),
        (RESTATED.replace("left =", 'where = "A"\nsource = "B"\nleft ='), "'xiao-window' gives source, where: leave them out"),
        (RESTATED.replace('restates = "xiao-window"\n', ""), "claim large-window: give statement, or restates"),
    ],
)
def test_what_a_claim_cannot_restate_is_named(tmp_path: Path, text: str, message: str) -> None:
    write_config(tmp_path, SINKS + STATED, "sinks.toml")
    with pytest.raises(UserError, match=message):
        load_studies(write_config(tmp_path, text, "published.toml"))


def test_the_path_of_a_tokenizer_is_relative_too_and_the_source_of_a_figure_is_none(tmp_path: Path) -> None:
    path = write_config(
        tmp_path,
        EXTRAPOLATION
        + "sweep.'data.tokenizer.source' = ['c', 'tiktoken:gpt2']\n"
        + "[arms.a]\npublished = [{ text = '1', source = 'gu2025' }]\n"
        + "[arms.b]\ndata.tokenizer = { kind = 'published', source = 'd/tokenizer.json' }\n",
    )
    (study,) = load_studies(path)
    assert study.sweep == {"data.tokenizer.source": (str(tmp_path / "c"), "tiktoken:gpt2")}
    assert study.arms["a"]["published"][0]["source"] == "gu2025"
    assert study.arms["b"]["data"]["tokenizer"]["source"] == str(tmp_path / "d" / "tokenizer.json")
