"""Configuration files, overrides and arms, and what is said of each mistake in them."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.experiments.config.data import BackcopyData
from leadline.experiments.config.exact import BaseBound
from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.model import FixedSink, ModelConfig
from leadline.experiments.config.position import Alibi, Rope
from leadline.experiments.config.scaling import Yarn
from leadline.experiments.config.study import Start
from leadline.experiments.runtime.errors import UserError
from tests.experiments.configured import EXTRAPOLATION, complaint_of, configured_arms, write_config

CONFIGS = sorted(Path(__file__).parents[3].joinpath("configs").rglob("*.toml"))

SINKS = """
study = "sinks"
seeds = [0, 1]
[model]
width = 32
heads = 2
position = { kind = "rope", base = 10000.0 }
[data]
kind = "backcopy"
[train]
steps = 10
batch = 4
learning_rate = 1e-3
"""


def test_what_is_not_written_has_its_default(tmp_path: Path) -> None:
    (study,) = load_studies(write_config(tmp_path, SINKS))
    assert study.seeds == (0, 1)
    assert isinstance(study.data, BackcopyData)
    assert study.train is not None
    assert study.model is not None
    assert (study.data.zipf, study.train.clip, study.model.sink.kind) == (0.9, 1.0, "none")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("model.widht=64", "model.widht: unknown key; did you mean 'width'?"),
        ("model.position.bass=1.0", "model.position.bass: unknown key; did you mean 'base'?"),
        ("model.gate={kind='output', pre='head'}", "model.gate.per: this key is required"),
        ("trian.steps=3", "trian: unknown key; did you mean 'train'?"),
        ("train.schedule={kind='cosine', last=0.1}", "train.schedule.last: unknown key; valid here: final, kind"),
        ("measure.sink.epsilom=0.2", "measure.sink.epsilom: unknown key; did you mean 'epsilon'?"),
        ("data.lenght=32", "data.lenght: unknown key; did you mean 'length'?"),
    ],
)
def test_unknown_key_names_itself_its_file_and_its_neighbour(tmp_path: Path, word: str, expected: str) -> None:
    assert complaint_of(tmp_path, SINKS, word) == f"{tmp_path / 'study.toml'}: {expected}"


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("model.layers=0", ("model.layers = 0", "greater than 0")),
        ("train.learning_rate=0.0", ("train.learning_rate = 0.0", "greater than 0")),
        ("train.learning_rate=nan", ("train.learning_rate = nan", "finite")),
        ("train.learning_rate=inf", ("train.learning_rate = inf", "finite")),
        ("model.position.base=inf", ("model.position.base = inf", "finite")),
        ("train.beta2=1.0", ("train.beta2 = 1.0", "less than 1")),
        ("train.steps=2.5", ("train.steps = 2.5", "integer")),
        ("train.steps=many", ("train.steps = 'many'", "integer")),
        ("data.length=8", ("data.length = 8", "greater than or equal to 16")),
        ("measure.sink.epsilon=1.0", ("measure.sink.epsilon = 1.0", "less than 1")),
        ("measure.sink.token=65", ("measure.sink", "token 65", "length 64")),
        ("seeds=[]", ("seeds", "at least 1")),
        ("seeds=[-1]", ("seeds.0 = -1", "greater than or equal to 0")),
        ("seeds=[1, 0, 1]", ("seeds", "1 is there twice")),
        ("data.triggers=64", ("data", "triggers = 64", "vocabulary of 64")),
        ("model.norm=batch", ("model.norm = 'batch'", "'rms' or 'layer'")),
    ],
)
def test_value_out_of_range_names_the_range(tmp_path: Path, word: str, parts: tuple[str, ...]) -> None:
    message = complaint_of(tmp_path, SINKS, word)
    assert message.startswith(str(tmp_path / "study.toml"))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("model.width=36", "model.heads=4"), ("model", "head dimension 9 is odd")),
        (("model.head_dim=7",), ("model", "head dimension 7 is odd")),
        (("model.heads=3",), ("model", "width 32 does not divide into 3 heads")),
        (("model.kv_heads=4",), ("model", "kv_heads 4 does not divide heads 2")),
        (("model.position.kind=ropr",), ("model.position.kind = 'ropr': unknown; did you mean 'rope'?",)),
        (("data.kind=texts",), ("data", "'texts'")),
        (("study=a/b",), ("study", "'a/b' names a folder")),
        (("model.position.scaling={kind='yarn', factor=0.5}",), ("model.position.scaling.factor = 0.5", "or equal to 1")),
        (("model.position.scaling={kind='yarn', factor=2.0, beta_fast=1.0}",), ("beta_fast 1.0", "beta_slow 1.0")),
        (("model.position.base=1.0", "model.position.scaling={kind='yarn', factor=2.0}"), ("YaRN", "base")),
        (("model.head_dim=2", "model.position.scaling={kind='ntk', factor=2.0}"), ("head dimension 2", "NTK")),
        (("model.position={kind='learned', scaling={kind='pi', factor=2.0}}",), ('"learned" has no frequencies', '"rope"')),
        (("model.position=[{kind='alibi'}, {kind='nope'}]",), ("model.position", "one position encoding at a time")),
        (("model.position.sections=[4, 5]",), ("sections [4, 5] divide 9 pairs, a head has 8",)),
        (("model.position.sections=[4, 4]", "model.position.grid=[2, 2]"), ("grid of 3 axes", "as many sections, not 2")),
        (("model.position.partial=0.3",), ("partial = 0.3", "0.25 is")),
        (("model.position.partial=0.5", "model.position.p=0.5"), ("partial and p",)),
        (("model.position.temperature={}",), ("nope_every = 4",)),
        (("model.position={kind='axial', grid=[2, 2]}",), ("3 axes", "head dimension 16", "multiple of 6")),
        (
            ("model.position.scaling={kind='longrope', factor=2.0, short=[1, 1], long=[2, 2]}",),
            ("short has 2 factors", "one a pair, 8 in all"),
        ),
        (
            ("model.position.scaling={kind='yarn', factor=2.0, attention_factor=1.1, attention_multiplier=1.1}",),
            ("attention_factor is final", "give one"),
        ),
        (("model.position.scaling={kind='llama3', factor=2.0, high_frequency_factor=1.0}",), ("high_frequency_factor 1.0",)),
        (("model.position={kind='t5', furthest=16}",), ("furthest = 16 must be above 16",)),
    ],
)
def test_settings_that_do_not_fit_each_other(tmp_path: Path, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    message = complaint_of(tmp_path, SINKS, *words)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(("table", "missing"), [("{ kind = 'rope' }", "base"), ("{ base = 10.0 }", "kind")])
def test_rope_without_its_base_or_kind(tmp_path: Path, table: str, missing: str) -> None:
    text = SINKS.replace('{ kind = "rope", base = 10000.0 }', table)
    assert complaint_of(tmp_path, text).endswith(f"model.position.{missing}: this key is required")


def test_head_dim_of_its_own_needs_no_division(tmp_path: Path) -> None:
    (arm,) = configured_arms(tmp_path, SINKS, "model.heads=3", "model.head_dim=8")
    assert (arm.model.heads, arm.model.head_dim) == (3, 8)


def test_learned_positions_are_not_measured_beyond_their_table(tmp_path: Path) -> None:
    learned = "learned positions end at 16 tokens: nothing is measured at 32"
    assert learned in complaint_of(tmp_path, EXTRAPOLATION, "model.position={kind='learned'}")
    words = ("model.position={kind='learned'}", "measure.perplexity.lengths=[16]")
    assert configured_arms(tmp_path, EXTRAPOLATION, *words)
    assert configured_arms(tmp_path, EXTRAPOLATION, "model.position={kind='learned', capacity=64}")


def test_the_last_positions_are_within_every_window(tmp_path: Path) -> None:
    message = complaint_of(tmp_path, EXTRAPOLATION, "measure.perplexity.last=17")
    assert message.endswith("measure.perplexity.last = 17 is more than the 16 tokens of a window")


def test_extensions_that_the_rope_does_not_have_are_said_before_training(tmp_path: Path) -> None:
    yarn = ("measure.perplexity.extensions=['yarn']", "model.position.base=1.0")
    assert "YaRN" in complaint_of(tmp_path, EXTRAPOLATION, *yarn)
    ntk = ("measure.perplexity.extensions=['ntk']", "model.head_dim=2")
    assert "NTK" in complaint_of(tmp_path, EXTRAPOLATION, *ntk)


def test_minus_infinity_is_a_logit(tmp_path: Path) -> None:
    (arm,) = configured_arms(tmp_path, SINKS, "model.sink={kind='fixed', logit=-inf}")
    assert arm.model.sink == FixedSink(logit=-math.inf)
    assert "nan" in complaint_of(tmp_path, SINKS, "model.sink={kind='fixed', logit=nan}")


def test_a_sink_needs_a_denominator(tmp_path: Path) -> None:
    message = complaint_of(tmp_path, SINKS, "model.sink={kind='learned'}", "model.normalizer={kind='softpick'}")
    assert "sink 'learned' stands in the denominator of a softmax, and normalizer 'softpick' has none" in message
    assert 'sink = { kind = "none" }' in message


@pytest.mark.parametrize(
    "mistake",
    ["model.normalizer={kind='clipped', low=0.1}", "model.normalizer={kind='clipped', high=0.9}", "model.soft_cap=0"],
)
def test_impossible_scores_are_refused(tmp_path: Path, mistake: str) -> None:
    assert mistake.split("=")[0] in complaint_of(tmp_path, SINKS, mistake)


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.toml: there is no such file"):
        load_studies(tmp_path / "missing.toml")
    with pytest.raises(UserError, match="is a folder"):
        load_studies(tmp_path)
    with pytest.raises(UserError, match="line 2"):
        load_studies(write_config(tmp_path, 'study = "sinks"\nseeds = [0,,1]\n'))
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'study = "caf\xe9"')
    with pytest.raises(UserError, match=r"latin\.toml: not UTF-8 at byte 12"):
        load_studies(latin)


def test_words_override_the_file(tmp_path: Path) -> None:
    (arm,) = configured_arms(tmp_path, SINKS, "train.steps=7", "model.position={kind='alibi'}", "model.norm=layer")
    assert (arm.train.steps, arm.model.position, arm.model.norm) == (7, Alibi(), "layer")


@pytest.mark.parametrize("word", ["train.steps", "=3", ""])
def test_word_that_is_no_assignment(tmp_path: Path, word: str) -> None:
    assert "key=value" in complaint_of(tmp_path, SINKS, word)


def test_words_of_a_suite_begin_with_their_study(tmp_path: Path) -> None:
    write_config(tmp_path, SINKS, "sinks.toml")
    write_config(tmp_path, 'study = "rope_base"\n[exact]\nkind = "base_bound"\nlengths = [64]\n', "base.toml")
    suite = write_config(tmp_path, 'studies = ["sinks.toml", "base.toml"]', "suite.toml")
    sinks, base = load_studies(suite, ["sinks.train.steps=3", "rope_base.exact.head_dims=[8]"])
    assert sinks.train is not None
    assert sinks.train.steps == 3
    assert base.exact == BaseBound(head_dims=(8,), lengths=(64,))
    for word in ("train.steps=3", "sinks", "sinks=3", "rope.lengths=[1]"):
        with pytest.raises(UserError, match="in a suite a key begins with its study, sinks or rope_base"):
            load_studies(suite, [word])
    with pytest.raises(UserError, match=r"base\.toml: exact\.lengths"):
        load_studies(suite, ["rope_base.exact.lengths=[]"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('studies = ["sinks.toml"]\nseeds = [1]', "'seeds'"),
        ('studies = "sinks.toml"', "list"),
        ("studies = []", "list"),
        ("studies = [3]", "list"),
        ('studies = ["nowhere.toml"]', r"nowhere\.toml: there is no such file"),
    ],
)
def test_suite_that_is_none(tmp_path: Path, text: str, expected: str) -> None:
    write_config(tmp_path, SINKS, "sinks.toml")
    with pytest.raises(UserError, match=expected):
        load_studies(write_config(tmp_path, text, "suite.toml"), ["sinks.train.steps=1"])


def test_arm_merges_tables_of_its_kind_and_replaces_others(tmp_path: Path) -> None:
    text = SINKS + '[arms.other_base]\nmodel.position = { base = 7.0 }\n[arms.alibi]\nmodel.position = { kind = "alibi" }\n'
    text += '[arms.yarn]\nmodel.position.scaling = { kind = "yarn", factor = 4.0 }\ntrain.steps = 3\n'
    other, alibi, yarn = configured_arms(tmp_path, text, "model.position.interleaved=true")
    assert other.model.position == Rope(base=7.0, interleaved=True)
    assert alibi.model.position == Alibi()
    assert yarn.model.position.scaling == Yarn(factor=4.0)  # pyright: ignore[reportAttributeAccessIssue]
    assert yarn.model.position.base == 10000.0  # pyright: ignore[reportAttributeAccessIssue]
    assert [arm.train.steps for arm in (other, alibi, yarn)] == [10, 10, 3]


def test_without_arms_there_is_one(tmp_path: Path) -> None:
    assert [arm.name for arm in configured_arms(tmp_path, SINKS)] == ["base"]


def test_sweep_is_the_cross_product(tmp_path: Path) -> None:
    sweep = (
        '[sweep]\n"model.position.base" = [1e2, 1e4, 1e6]\n"train.steps" = [5, 6]\n[arms.a]\n[arms.b]\nmodel.norm = "layer"\n'
    )
    arms = configured_arms(tmp_path, SINKS + sweep)
    wanted = list(itertools.product("ab", (1e2, 1e4, 1e6), (5, 6)))
    assert [arm.name for arm in arms] == [f"{arm}_base={base}_steps={steps}" for arm, base, steps in wanted]
    found = [(arm.name[0], arm.model.position.base, arm.train.steps) for arm in arms]  # pyright: ignore[reportAttributeAccessIssue]
    assert found == wanted
    assert [arm.model.norm for arm in arms] == ["rms"] * 6 + ["layer"] * 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[arms.odd]\nmodel.head_dim = 3\n", "arms.odd: model: the head dimension 3 is odd"),
        ("[arms.lost]\nmodel.widht = 3\n", "arms.lost: model.widht: unknown key; did you mean 'width'?"),
        ("[arms.lost]\nmodl.width = 4\n", "arms.lost.modl: unknown key; did you mean 'model'?"),
        ('[arms."a/b"]\n', "'a/b' names a folder"),
        ('[arms.".hidden"]\n', "'.hidden' names a folder"),
        ('[sweep]\n"model.head_dim" = [4, 5]\n', "arms.base_head_dim=5: model: the head dimension 5 is odd"),
        ('[sweep]\n"train.steps" = []\n', "sweep.train.steps"),
        ("arms.a = 3\n", "arms.a = 3"),
    ],
)
def test_mistake_in_an_arm_names_the_arm(tmp_path: Path, text: str, expected: str) -> None:
    where, _, top = ("", "", text) if text.startswith("arms.") else (text, "", "")
    assert expected in complaint_of(tmp_path, top + SINKS + where)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_loads_and_resolves(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")
    for study in load_studies(path):
        if study.exact is None:
            arms = arms_of(study, path)
            assert len({arm.name for arm in arms}) == len(arms) >= 1


def test_a_config_is_frozen_and_hashable() -> None:
    model = ModelConfig(position=Alibi())
    assert hash(model) == hash(ModelConfig(position=Alibi()))
    with pytest.raises(ValueError, match="frozen"):
        model.width = 3  # pyright: ignore[reportAttributeAccessIssue]


TUNED = (
    SINKS
    + """
[arms.gated]
model.gate = { kind = "output", per = "head" }
train.steps = 20
[arms.tuned]
start = "gated"
data.length = 128
measure.sink.length = 128
[arms.further]
start = "tuned"
train.learning_rate = 1e-5
"""
)


def test_an_arm_that_starts_from_another_has_its_settings_and_its_own(tmp_path: Path) -> None:
    arms = {arm.name: arm for arm in configured_arms(tmp_path, TUNED + "[measure]\nsink.length = 64\n")}
    gated, tuned, further = arms["gated"], arms["tuned"], arms["further"]
    assert gated.start is None
    assert gated.original_length == 64
    assert tuned.start == Start(arm="gated", length=64, steps=20)
    assert (tuned.model, tuned.train.steps, tuned.data.length, tuned.original_length) == (gated.model, 20, 128, 64)
    assert further.start == Start(arm="tuned", length=64, steps=40)
    assert (further.data.length, further.train.learning_rate, tuned.train.learning_rate) == (128, 1e-5, 1e-3)


def test_in_a_sweep_an_arm_starts_from_the_one_of_equal_values(tmp_path: Path) -> None:
    text = SINKS + '[sweep]\n"model.position.base" = [1e2, 1e4]\n[arms.a]\n[arms.b]\nstart = "a"\n'
    starts = {arm.name: arm.start and arm.start.arm for arm in configured_arms(tmp_path, text)}
    assert starts == {
        "a_base=100.0": None,
        "a_base=10000.0": None,
        "b_base=100.0": "a_base=100.0",
        "b_base=10000.0": "a_base=10000.0",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[arms.rope]\n[arms.b]\nstart = "rop"\n', "arms.b.start = 'rop': no arm of this study; did you mean 'rope'?"),
        ("[arms.b]\nstart = 3\n", "arms.b.start = 3: no arm of this study"),
        ('[arms.b]\nstart = "b"\n', "arms.b.start = 'b': these arms start from each other in a circle: b"),
        ('[arms.b]\nstart = "c"\n[arms.c]\nstart = "b"\n', "these arms start from each other in a circle: b, c"),
        ('[arms.b]\nstrat = "b"\n', "arms.b.strat: unknown key; did you mean 'start'?"),
    ],
)
def test_a_start_that_is_none_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in complaint_of(tmp_path, SINKS + text)


def test_a_stride_is_below_every_window(tmp_path: Path) -> None:
    message = complaint_of(tmp_path, EXTRAPOLATION, "measure.perplexity.stride=16")
    assert message.endswith("stride = 16 is not below the 16 tokens of a window: leave it out for windows that do not overlap")
    (arm,) = configured_arms(tmp_path, EXTRAPOLATION, "measure.perplexity.stride=8")
    assert arm.measure.perplexity is not None
    assert arm.measure.perplexity.stride == 8


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("model.kernel={kind='relu'}", "model.kernel: this key is named normalizer now"),
        ("model.position.kept=0.5", "model.position.kept: this key is named p now"),
        ("arms.a.model.kept=4", "model.kept: this key is named initial_tokens now"),
        (
            "measure.lengths=[16]",
            "measure.lengths: this key is named perplexity.lengths, retrieval.lengths or recall.lengths now",
        ),
        ("head_dims=[64]", "head_dims: this key is named exact.head_dims now"),
    ],
)
def test_an_old_key_names_the_new_one(tmp_path: Path, word: str, name: str) -> None:
    assert complaint_of(tmp_path, EXTRAPOLATION, word).endswith(name)


def test_a_file_extends_another(tmp_path: Path) -> None:
    write_config(tmp_path, EXTRAPOLATION + '[arms.a]\nlabel = "A"\n', "base.toml")
    path = write_config(tmp_path, 'extends = "base.toml"\nstudy = "mine"\n[train]\nsteps = 3\n[arms.a]\ntrain.batch = 8\n')
    (study,) = load_studies(path)
    (arm,) = arms_of(study, path)
    assert (study.study, arm.label, arm.train.steps, arm.train.batch, arm.data.length) == ("mine", "A", 3, 8, 16)
    write_config(tmp_path, 'extends = "study.toml"\n', "base.toml")
    with pytest.raises(UserError, match="extend each other in a circle"):
        load_studies(path)


def test_an_arm_is_called_by_its_label_and_the_values_of_a_sweep(tmp_path: Path) -> None:
    text = EXTRAPOLATION + '[sweep]\n"train.batch" = [4, 8]\n[arms.small_base]\n[arms.b]\nlabel = "large base"\n'
    labels = [arm.label for arm in configured_arms(tmp_path, text)]
    assert labels == ["small base, batch 4", "small base, batch 8", "large base, batch 4", "large base, batch 8"]


CLAIM = "claims=[{ id = 'a', statement = 'S.', left = { quantity = 'loss', arm = 'ARM' }, relation = 'below', right = RIGHT }]"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (CLAIM.replace("ARM", "gatd").replace("RIGHT", "1.0"), "claim a: [selectors] lacks 'gatd'; did you mean 'gated'?"),
        (
            CLAIM.replace("ARM", "gated").replace("RIGHT", "{ quantity = 'loss', arm = 'q' }"),
            "claim a: [selectors] lacks 'q'; valid here: gated",
        ),
        ("claims=[{ id = 'a', statement = 'S.', function = 'm:f', arms = 'gats' }]", "lacks 'gats'; did you mean 'gated'?"),
        (
            "tables=[{ title = 'T', columns = ['loss'], labels = ['B', 'bate 4'] }]",
            "tables.0.labels: no arm is called 'bate 4'; ",
        ),
        (
            "figures=[{ kind = 'step', name = 'n', caption = 'C.', quantities = ['loss'], labels = ['a_b'] }]",
            "figures.0.labels: no arm is called 'a_b'; did you mean 'a b'?",
        ),
    ],
)
def test_a_name_that_is_not_defined_is_said_with_its_neighbour(tmp_path: Path, word: str, message: str) -> None:
    text = EXTRAPOLATION + '[sweep]\n"train.batch" = [4, 8]\n[arms.a_b]\n[arms.b]\nlabel = "B"\n[selectors]\ngated = {}\n'
    assert message in complaint_of(tmp_path, text, word)
    assert configured_arms(tmp_path, text, "tables=[{ title = 'T', columns = ['loss'], labels = ['B', 'a b, batch 4'] }]")


def test_reading_a_configuration_imports_no_jax() -> None:
    script = "import sys, leadline.experiments.config.load; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
