"""Tables as a study's file describes them, from synthetic records."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from leadline.experiments.config.report import TableSpec
from leadline.experiments.publish.table import Table
from leadline.experiments.publish.tables import table
from leadline.experiments.runtime.errors import UserError
from tests.experiments.synthetic_records import ARMS, Stored, entry, measured, sinks_study, study

STUDY, RECORDS = sinks_study()
GATE = ARMS["gate"]["label"]


def made(records: Sequence[Stored] = RECORDS, described: Any = STUDY, **spec: Any) -> Table:
    return table(TableSpec.model_validate({"title": "T", **spec}), described, records)


def cells(table: Table) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in table.rows]


def test_a_row_an_arm_in_the_order_of_the_file() -> None:
    shown = made(list(reversed(RECORDS)), columns=["loss", {"quantity": "sink_rate", "heading": "sinks", "digits": 1}])
    assert shown.columns == ("arm", "loss (nats)", "sinks")
    assert [row[0] for row in cells(shown)] == [arm["label"] for arm in ARMS.values()]
    assert [row[2] for row in cells(shown)] == ["0.9 ± 0.0", "0.3 ± 0.0", "0.1 ± 0.0"]
    assert shown.name == "sinks"


def test_rows_by_dimensions_and_a_column_for_each_value() -> None:
    shown = made(name="lengths", rows=["arm", "extension"], columns=[{"quantity": "perplexity", "each": "length"}])
    assert shown.name == "sinks_lengths"
    assert shown.columns == ("arm", "extension", "128 tokens", "256 tokens", "512 tokens", "1024 tokens")
    assert [row[:2] for row in cells(shown)][:2] == [["softmax", "as trained"], ["softmax", "YaRN"]]
    assert len(shown.rows) == 6


def test_a_row_a_quantity_has_its_own_digits() -> None:
    columns = [{"quantity": "loss"}, {"quantity": "perplexity", "at": {"length": 512}}]
    shown = made(rows=["quantity", "arm"], columns=columns, labels=["softmax"])
    assert shown.columns == ("quantity", "arm", "value")
    assert [row[0] for row in cells(shown)] == ["loss (nats)", "perplexity, 512 tokens"]
    assert [len(row[2].split(" ")[0].split(".")[1]) for row in cells(shown)] == [4, 2]


def test_a_share_of_seeds_has_its_exact_interval() -> None:
    shown = made(columns=[{"quantity": "sink_rate", "above": 0.2, "heading": "sinks"}], labels=["softmax"])
    count = len(RECORDS) // len(ARMS)
    assert cells(shown) == [["softmax", f"{count} of {count} [{0.025 ** (1 / count):.2f}, 1.00]"]]


def test_multiples_are_of_the_training_length_of_each_record() -> None:
    columns = [{"quantity": "perplexity", "at": {"length": {"multiple": 4}}}]
    records = [
        entry("sinks", arm, 0, measured("perplexity", length, length=4 * length), config={"data": {"length": length}})
        for arm, length in (("softmax", 128), ("gate", 64))
    ]
    shown = made(records, columns=columns)
    assert shown.columns[1] == "perplexity, 4×"
    assert [row[1] for row in cells(shown)] == ["128.00", "64.00"]


@pytest.mark.parametrize(
    ("choice", "arms"),
    [
        ({"where": {"model.norm": "rms"}}, ["softmax", GATE]),
        ({"where": {"model.gate": "output"}}, [GATE]),
        ({"where": {"model.gate": {"per": "head"}}}, [GATE]),
        ({"where": {"model.gate": False}}, ["softmax"]),
        ({"where": {"model.gate": True, "start": False}}, [GATE]),
        ({"where": {"model.nothing": 1}}, []),
        ({"labels": [GATE]}, [GATE]),
    ],
)
def test_arms_are_chosen_by_their_configuration_or_label(choice: dict[str, Any], arms: list[str]) -> None:
    gates = {"softmax": None, "gate": {"kind": "output", "per": "head"}}
    configs = {arm: {"model": {"norm": "rms", "gate": gate}} for arm, gate in gates.items()}
    records = [entry("sinks", arm, 0, measured("loss", 1.0), config=config) for arm, config in configs.items()]
    assert [row[0] for row in cells(made(records, columns=["loss"], **choice))] == arms


def test_a_sweep_makes_columns_of_its_values() -> None:
    described = study("s", {"plain": {"label": "Plain"}}, sweep={"train.learning_rate": [0.01, 0.1]})
    records = [
        entry("s", f"plain_learning_rate={rate}", seed, measured("loss", rate), config={"train": {"learning_rate": rate}})
        for rate in (0.01, 0.1)
        for seed in range(2)
    ]
    records.append(entry("s", "plain_learning_rate=0.1", 2, status="diverged", config={"train": {"learning_rate": 0.1}}))
    shown = made(records, described, rows=["family"], columns=[{"quantity": "loss", "each": "train.learning_rate"}])
    assert shown.columns == ("arm", "learning rate 0.01", "learning rate 0.1")
    assert cells(shown) == [["Plain", "0.0100 ± 0.0000", "0.1000 ± 0.0000, 1 diverged"]]
    assert any("left out of the means: " in note and note.endswith("(seed 2)") for note in shown.notes)


def test_an_arm_that_only_diverged_keeps_its_row() -> None:
    shown = made([entry("sinks", "gate", seed, status="diverged") for seed in range(2)], columns=["loss", "flops"])
    assert cells(shown) == [[GATE, "2 diverged", "2 diverged"]]
    shown = made([*RECORDS, entry("sinks", "lost", 0, status="diverged")], columns=["loss"])
    assert cells(shown)[-1] == ["lost", "1 diverged"]


def test_repeated_measurements_are_pooled_and_records_say_their_cost() -> None:
    rounds = [measured("encoding_speed", speed, way="fast", round=i) for i, speed in enumerate((1.0, 2.0, 3.0))]
    columns = ["flops", {"quantity": "encoding_speed", "each": "way", "over": "round"}]
    shown = made([entry("sinks", "softmax", 0, *rounds)], columns=columns)
    assert cells(shown) == [["softmax", "1,000,000,000,000.000", "2.00 ± 1.00"]]


def test_published_figures_stand_in_their_rows() -> None:
    cited = made(columns=["sink_rate"], published=True)
    assert cited.columns[-2:] == ("published", "source")
    assert cells(cited)[0][-2] == "sink rate 34.89 %"
    assert cells(cited)[0][-1].endswith("Table 3")
    assert cells(cited)[1][-2:] == ["–", "–"]
    figure = {"text": "19", "source": "press2022", "at": {"extension": "yarn"}}
    by_row = made(rows=["arm", "extension"], columns=[{"quantity": "perplexity", "each": "length"}], published=[figure])
    assert [row[-2] for row in cells(by_row)] == ["–", "19"] * 3
    assert "published" not in made(columns=["loss"], published=[figure]).columns


@pytest.mark.parametrize("records", [[], [entry("other", "softmax", 0, measured("loss", 1.0))]])
def test_records_of_another_study_are_no_rows(records: list[Stored]) -> None:
    assert made(records, columns=["loss"]).rows == ()


def test_notes_are_about_the_records_with_a_number() -> None:
    """Of two arms one has the quantity; the other's texts and commit are not named."""
    texts = {"source": "the Declaration", "edition": "1", "normalization": "none"}
    first = entry("sinks", "softmax", 0, measured("loss", 1.0))
    second = entry("sinks", "gate", 0, measured("sink_rate", 0.5))
    second = replace(second, record=second.record.model_copy(update={"data": second.record.data | texts}))
    of_loss, of_sinks = (made([first, second], columns=[quantity]).notes for quantity in ("loss", "sink_rate"))
    assert not any("Declaration" in note for note in of_loss)
    assert "texts: the Declaration, 1; none" in of_sinks
    assert all(any(note.endswith("summed over 1 record") for note in notes) for notes in (of_loss, of_sinks))


def test_a_cell_of_two_arms_is_an_error() -> None:
    with pytest.raises(UserError, match=r"table 'T': readings of several arms or dimensions fall into one place"):
        made(rows=["arms"], columns=["loss"])
