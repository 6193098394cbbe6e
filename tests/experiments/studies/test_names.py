"""The names in tables, figures and claims, and what is said of those that there are not."""

import re
from pathlib import Path

import pytest

from leadline.experiments.config.load import arms_of
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.studies.names import check_names
from tests.experiments.committed import COMMITTED
from tests.experiments.configured import SINKS, studies_of

BOUND = 'study = "bounds"\nexact = { kind = "base_bound", lengths = [64] }\n'


def table(settings: str) -> str:
    return f"tables=[{{ title = 'T', columns = ['smallest_base', 'seconds'], {settings} }}]"


def figure(settings: str, kind: str = "step", quantity: str = "loss") -> str:
    return f"figures=[{{ {settings}, kind = '{kind}', name = 'f', caption = 'C.', quantities = ['{quantity}'] }}]"


def claim(settings: str, quantity: str = "loss") -> str:
    left = f"left = {{ quantity = '{quantity}', arm = 'a' }}, relation = 'below', right = 1.0"
    return f"claims=[{{ {settings}, id = 'a', statement = 'S.', {left} }}]"


def of_function(name: str) -> str:
    return f"claims=[{{ id = 'a', statement = 'S.', arms = 'a', function = '{name}' }}]"


FUNCTIONS = {"math:pi": "TypeError: pi is a float, no function", "no.module:f": "ModuleNotFoundError: No module named 'no'"}
PUBLISHED = "[{ text = '1', source = 'gu2026' }]"
SOURCE = "source = 'gu2026': no reference has this key; did you mean 'gu2025'?"
ALONE = "only a column of a table may be it"
EACH = "tables=[{ title = 'T', columns = [{ quantity = 'loss', each = 'data.kid' }] }]"
# Words for a study of Bigram-Backcopy with keys that no configuration has, where and what these are, and what is said of them.
KEYS = [
    (table("where = { 'model.gat.kind' = 'none' }"), "tables.0.where", "model.gat", "did you mean 'gate'?"),
    (table("rows = ['arm', 'train.step']"), "tables.0.rows", "train.step", "did you mean 'steps'?"),
    (EACH, "tables.0.columns", "data.kid", "did you mean 'kind'?"),
    (figure("where = { modle = 'any' }"), "figures.0.where", "modle", "did you mean 'model'?"),
    (figure("lines = ['model.gate.pre']"), "figures.0.lines", "model.gate.pre", "did you mean 'per'?"),
    (figure("panels = ['config.lable']"), "figures.0.panels", "lable", "did you mean 'label'?"),
    (figure("key = 'train.learnin_rate'", "value"), "figures.0.key", "train.learnin_rate", "did you mean 'learning_rate'?"),
    (figure("dim = 'train.step'", "bars"), "figures.0.dim", "train.step", "did you mean 'steps'?"),
    ("selectors.a={ 'model.gat' = false }", "selectors.a", "model.gat", "did you mean 'gate'?"),
    ("selectors.a={ label = 'A' }", "selectors.a", "label", "valid here: data, measure, model, train"),
    ("selectors.a={ 'train.steps.x' = 1 }", "selectors.a", "train.steps.x", "valid here: nothing"),
]
# The same for all names.
MISTAKES = [
    (figure("title = 'Q'", quantity="los"), "figures.0.quantities: no quantity is called 'los'; did you mean 'loss'?"),
    (figure("title = 'Q'", quantity="seconds"), f"figures.0.quantities: no quantity is called 'seconds'; {ALONE}"),
    (figure("x = 'parameters'", "scatter"), f"figures.0.x: no quantity is called 'parameters'; {ALONE}"),
    (claim("log = true", "flops"), f"claim a: no quantity is called 'flops'; {ALONE}"),
    (claim("source = 'gu2026'"), f"claim a: {SOURCE}"),
    *((of_function(name), f"claim a: function = '{name}': {said}") for name, said in FUNCTIONS.items()),
    (table(f"published = {PUBLISHED}"), f"tables.0.published: {SOURCE}"),
    (f"arms.a.published={PUBLISHED}", f"arms.a.published: {SOURCE}"),
    *((word, f"{where}: {key!r} is no key of a configuration; {remedy}") for word, where, key, remedy in KEYS),
]
MISTAKES_OF_EXACT = [
    ("selectors.a={ head_dims = 128 }", "selectors.a: 'head_dims' is no key of a configuration; did you mean 'head_dim'?"),
    (table("rows = ['config.lenght']"), "tables.0.rows: 'lenght' is no key of a configuration; did you mean 'length'?"),
]
NAMES = ("arms={ a = {} }", "selectors={ a = {} }")


@pytest.mark.parametrize(
    ("published", "said"),
    [("3", "published = 3: should be a list, as in published = [3]"), ("[3]", "published.0 = 3: should be a valid dictionary")],
)
def test_what_is_published_of_an_arm_that_does_not_run_is_checked_too(tmp_path: Path, published: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"sinks: arms.b: {said}")):
        check(tmp_path, SINKS, "arms={ a = {} }", f"arms.b.published={published}", "only=['a']")


def check(folder: Path, text: str, *words: str) -> None:
    (study,) = studies_of(folder, text, *words)
    check_names(study, [] if study.exact is not None else arms_of(study, folder / "study.toml"))


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        *((SINKS, (*NAMES, word), f"sinks: {line}") for word, line in MISTAKES),
        *((BOUND, (word,), f"bounds: {line}") for word, line in MISTAKES_OF_EXACT),
    ],
)
def test_a_name_that_there_is_not_is_said_with_the_nearest_one(
    tmp_path: Path, text: str, words: tuple[str, ...], line: str
) -> None:
    with pytest.raises(UserError) as raised:
        check(tmp_path, text, *words)
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "word",
    [
        table("where = { 'model.gate.per' = 'head', 'config.data' = 'backcopy' }, rows = ['family', 'start.length', 'layer']"),
        figure("key = 'data.length'", "value"),
        "selectors.a={ start = true, 'model.gate' = false, 'measure.sink.length' = 64 }",
    ],
)
def test_keys_that_some_configuration_has_are_no_mistake(tmp_path: Path, word: str) -> None:
    check(tmp_path, SINKS, *NAMES, word)


def test_the_committed_studies_name_what_there_is() -> None:
    for path, study in COMMITTED:
        check_names(study, [] if study.exact is not None else arms_of(study, path))
