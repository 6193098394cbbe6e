"""Damaged values of config.json: each file is read or refused in a line that names it, and no other error comes up."""

from collections.abc import Iterator
from typing import Any

import pytest

from leadline.experiments.published.architectures.base import Keys
from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.load import CONTEXT, configured
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.architectures import real_configs
from tests.experiments.published.architectures.llama_configs import FILES, QWEN3_NEXT
from tests.experiments.published.tiny import TENSORS

ALL: dict[str, dict[str, Any]] = {
    **FILES,
    "Qwen3-Next": QWEN3_NEXT,
    **{
        name: getattr(real_configs, name) for name in ("GPT2", "PYTHIA", "BLOOM", "MPT", "FALCON", "FALCON_40B", "PHI2", "PHI3")
    },
}
LLAMA = FILES["Llama 3.1 8B"]
DAMAGES = (None, "x", "", 0, -1, 0.5, 10**9, 10**400, 1e-320, True, [], ["x"], [[]], {}, {"x": []}, {"rope_type": "x"})
SCALINGS = tuple(
    {**scaling, "rope_type": kind}
    for kind in ("linear", "dynamic", "yarn", "llama3", "longrope")
    for scaling in ({}, {"factor": "x"}, {"factor": 2, "original_max_position_embeddings": 0})
)


def read(config: dict[str, Any]) -> str:
    """The reason why it is refused; empty where it is read."""
    try:
        configured(Checkpoint("tiny", config, TENSORS, None, (), {}.__getitem__))
    except UserError as error:
        return str(error)
    return ""


def damaged(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The file with each of its values replaced, by each damage; objects of its own with each of theirs too."""
    for key, value in config.items():
        yield from (config | {key: damage} for damage in DAMAGES)
        if isinstance(value, dict):
            yield from (config | {key: inner} for inner in damaged(value))
    for scaling in SCALINGS:
        yield config | {"rope_scaling": scaling}


@pytest.mark.parametrize("name", ALL)
def test_any_damage_of_a_value_is_read_or_refused_in_a_line(name: str) -> None:
    reasons = [read(config) for config in damaged(ALL[name])]
    assert all(reason.startswith("tiny: ") and "\n" not in reason for reason in reasons if reason)
    assert sum(map(bool, reasons)) > len(reasons) / 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": "sixteen"}, "hidden_size = 'sixteen'; it must be a whole number above 0"),
        ({"hidden_size": True}, "hidden_size = True; it must be a whole number"),
        ({"hidden_size": 0.5}, "hidden_size = 0.5; it must be a whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads = 0; it must be a whole number"),
        ({"model_type": []}, r"model_type \[\] is not among"),
        ({"rope_theta": 0}, "rope_theta = 0; it must be a finite number above 0"),
        ({"rope_theta": None, "rope_parameters": {"rope_theta": "x"}}, "rope_parameters: config.json has rope_theta = 'x'"),
        ({"rms_norm_eps": 0}, "rms_norm_eps = 0; it must be a finite number above 0"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps = inf; it must be a finite"),
        ({"rope_scaling": "x"}, "rope_scaling = 'x'; it must be an object"),
        ({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling: config.json lacks 'factor'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "rope_scaling: config.json lacks 'low_freq_factor'"),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 0.5}},
            r"config.json: factor: Input .* mend it or download",
        ),
        ({"vocab_size": -1}, "vocab_size = -1; it must be a whole number"),
        *(({"max_position_embeddings": value}, "max_position_embeddings = .*; it must be") for value in ("x", 0, -1, [])),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000, and its files 99 tensors; mend it"),
    ],
)
def test_what_is_damaged_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^tiny: .*{message}"):
        configured(Checkpoint("tiny", LLAMA | change, TENSORS, None, (), {}.__getitem__))


@pytest.mark.parametrize("key", CONTEXT)
def test_the_longest_text_is_a_count_whatever_its_name(key: str) -> None:
    assert f"{key} = 0; it must be a whole number" in read(real_configs.BLOOM | {key: 0})


@pytest.mark.parametrize("key", ["n_layer", "num_hidden_layers"])
def test_layers_are_fewer_than_tensors_whatever_their_name(key: str) -> None:
    assert f"{key} = 100, and its files 99 tensors" in read(real_configs.BLOOM | {key: 100})


def test_a_count_may_have_a_point() -> None:
    assert Keys({"a": 32.0}, "tiny").count("a") == 32


def test_a_default_is_taken_where_a_key_is_null() -> None:
    keys = Keys({"a": None}, "tiny")
    assert (keys.count("a", default=3), keys.number("a", default=0.5)) == (3, 0.5)
    assert (keys.count_or_none("a"), keys.number_or_none("a"), keys.table("a")) == (None, None, {})
