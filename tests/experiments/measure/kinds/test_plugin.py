"""Measurements that a configuration names, from modules that are no part of leadline."""

import textwrap
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.measure import Measure
from leadline.experiments.measure.kinds import plugin
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.records.measurement import Point, measurements_of, reading
from leadline.experiments.records.quantities import Quantity
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import Decoder
from tests.experiments.measure.kinds.toys import MEASURES, arm, point_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")
# What the documentation of the module shows, and what is wrong.
MODULE = (
    "from leadline.experiments.records.measurement import reading\n"
    + textwrap.dedent(str(plugin.__doc__).split("will do:\n")[1].split("\nThe functions")[0])
    + """
@of_layer(Quantity("flat", "1", "a quantity with too many axes", axes=("layer", "head")))
def flat(trace, tokens):
    return jnp.float32(0)

@of_layer(Quantity("share", "share", "a quantity at two dimensions", axes=("layer",)))
def share(trace, tokens):
    return {reading("share", above=bound): jnp.mean(trace.residual > bound) for bound in (0, 1)}

@of_layer(Quantity("mine", "1", "a quantity in whose place another one is given", axes=("layer",)))
def mine(trace, tokens):
    return {reading("yours"): jnp.float32(0)}

@of_model(Quantity("promised", "1", "a quantity that is not returned"))
def forgotten(params, tables, tokens, cfg):
    return {"other": jnp.float32(0)}

@of_model(Quantity("loss", "nats", "a quantity of a known name"))
def loss(params, tables, tokens, cfg):
    return {"loss": jnp.float32(0)}

def unmarked(trace, tokens):
    return jnp.float32(0)
"""
)


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("plugged_in", MODULE), ("misnamed", "f = jpn.mean\n"), ("broken", "def f(:\n")):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)


def _point(*functions: str) -> tuple[Point, Decoder]:
    measure = Measure(windows=4, sink=MEASURES["backcopy"].sink, functions=functions)
    return point_of(arm("rope", "backcopy", measure=measure), source_of("backcopy", Path()))


def test_plugged_measurements_are_in_every_point() -> None:
    functions = ("plugged_in:second_mass", "plugged_in:query_norm")
    point, params = _point(*functions)
    assert point[reading("second_mass")].shape == (2, 2)
    norms = np.linalg.norm(np.asarray(params.blocks.query).reshape(2, -1), axis=1)
    np.testing.assert_allclose(point[reading("query_norm")], norms, rtol=1e-5)
    quantities = quantities_of(functions)
    assert quantities["query_norm"].meaning == "norm of the query weights"
    numbers = {entry.reading: entry for entry in measurements_of(point, quantities)}
    assert numbers[reading("query_norm", layer=2)].value == pytest.approx(float(norms[1]), rel=1e-5)
    assert numbers[reading("second_mass")].unit == "share"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("plugged_in", 'is not of the form "package.module:function"'),
        ("no_such_module:f", "cannot be imported .No module named 'no_such_module'.; is its folder on PYTHONPATH"),
        (".plugged_in:f", "importing '.plugged_in' fails .TypeError: .*; mend it"),
        ("misnamed:f", "importing 'misnamed' fails .NameError: name 'jpn' is not defined.; mend it"),
        ("broken:f", "importing 'broken' fails .SyntaxError: .*; mend it"),
        ("plugged_in:second_mas", "'plugged_in' has no 'second_mas'; did you mean 'second_mass'"),
        ("plugged_in:unmarked", "'plugged_in:unmarked' has no quantity: mark it"),
        ("plugged_in:loss", "the quantity 'loss' is defined twice; give yours another name"),
    ],
)
def test_what_cannot_be_plugged_in_is_said_before_training(function: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_data(source_of("backcopy", Path()), arm("rope", "backcopy", measure=Measure(functions=(function,))))


def test_a_function_of_a_layer_may_give_several_readings_of_its_quantity() -> None:
    point, _ = _point("plugged_in:share")
    above_0, above_1 = (point[reading("share", above=bound)] for bound in (0, 1))
    assert above_0.shape == (2,)
    assert (above_0 > above_1).all()


OTHERS = r"'mine' gives \[.*yours.*\]: return readings of 'mine'"
SHAPE = r"flat has the axes \('layer', 'head'\), and its function gives the shape \(2,\)"
NAMES = r"\['promised'\] gives \['other'\]: return one array for each"


@pytest.mark.parametrize(("function", "message"), [("flat", SHAPE), ("forgotten", NAMES), ("mine", OTHERS)])
def test_a_function_that_gives_something_else_is_named(function: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _point(f"plugged_in:{function}")


def test_a_quantity_of_layers_says_so() -> None:
    with pytest.raises(ValueError, match=r'the axes of alone, .*, must begin with "layer"'):
        plugin.of_layer(Quantity("alone", "1", "a number without layers"))
