"""A results folder of synthetic records with a claim of every outcome, for tests of the page."""

from pathlib import Path
from typing import Any

from leadline.experiments.publish.report import Report, report
from leadline.experiments.records.record import StoredRecord
from leadline.experiments.records.store import write_study
from tests.experiments.synthetic_records import (
    LENGTH,
    Stored,
    entry,
    measured,
    of_published_model,
    published_study,
    sinks_study,
    write_records,
)

HOSTILE = '<img src=x onerror="alert(1)">&_%'
STATEMENT = "An output gate lowers the sink rate"
MAPS = {"kind": "attention_map", "name": "maps", "quantities": ["attention_map"], "labels": ["softmax"]}
PERPLEXITY = {"quantity": "perplexity", "each": "length"}
MODEL = {"layers": 2, "width": 64, "position": {"kind": "rope", "base": 10000.0}}
CHANGES = {"softmax": {}, "gate": {"norm": "layer"}, "sigmoid": {"feedforward": "gelu"}}  # of the model


def claim(name: str, statement: str, quantity: str, relation: str, **more: Any) -> dict[str, Any]:
    """A claim that compares the gate with softmax."""
    dims = more.pop("dims", {})
    left, right = ({"quantity": quantity, "arm": arm, "at": dims} for arm in ("gate", "softmax"))
    return {"id": name, "statement": statement, "left": left, "relation": relation, "right": right, **more}


LONGEST = {"dims": {"length": {"multiple": 8}}}
SHOWN: dict[str, Any] = {
    "model": MODEL,
    "title": "A study of sinks",
    "question": "What removes the sink?",
    "tables": [
        {"title": "Attention sinks", "columns": ["loss", "sink_rate"], "published": True, "notes": ["A note."]},
        {"title": "Perplexity", "name": "perplexity", "rows": ["arm", "extension"], "columns": [PERPLEXITY]},
    ],
    "figures": [
        {"kind": "step", "name": "over_training", "title": "When?", "caption": "Over training.", "quantities": ["sink_rate"]},
        {"caption": "Maps.", **MAPS},
    ],
    "claims": [
        claim("gate-less", STATEMENT, "first_token_mass", "below", source="qiu2025", where="section 4", published="half"),
        claim("gate-more", "A gate raises the sink", "first_token_mass", "above", source="gu2025"),
        claim("gate-shorter", "A gate lowers perplexity", "perplexity", "below", source="gu2025", log=True, **LONGEST),
        claim("gate-our", "A gate lowers the loss", "loss", "above", published="said without a source"),
        claim("gate-else", "Nobody measured this", "bos_mass", "below", source="guo2024"),
    ],
    "selectors": {"softmax": {"model.norm": "rms"}, "gate": {"model.norm": "layer"}},
}


def with_settings(stored: StoredRecord) -> Stored:
    """The record with the whole configuration of its arm, by which claims find it."""
    record = stored.record
    train = {"steps": 600, "batch": 4, "learning_rate": 1e-3}
    config = {"model": MODEL | CHANGES[record.arm], "data": {"kind": "text", "length": LENGTH}, "train": train, "start": None}
    digest = f"{list(CHANGES).index(record.arm):012x}"
    return Stored(record.model_copy(update={"config": config, "arm_hash": digest}), stored.curve(), stored.arrays())


def restated(name: str, left: str, relation: str, right: float | dict[str, Any]) -> dict[str, Any]:
    """A claim about a published model that has the statement of a claim above."""
    (stated,) = (claim for claim in SHOWN["claims"] if claim["id"] == name)
    taken = {key: stated[key] for key in ("statement", "source", "where", "published") if key in stated}
    term = {"quantity": "sink_rate", "arm": left}
    return {"id": f"large-{name}", "restates": name, "left": term, "relation": relation, "right": right, **taken}


def publish_scales(results: Path) -> Report:
    """Publishes the same with a published model: one of two statements turns out otherwise, one lacks a record."""
    claims = [restated("gate-less", "sinks", "above", 0.9), restated("gate-our", "streaming", "above", 0.5)]
    write_study(results, published_study(claims))
    write_records(results, of_published_model("sinks", measured("sink_rate", 0.7)))
    return publish(results)


def publish(results: Path, **options: Any) -> Report:
    """Writes the synthetic records, with an arm of a hostile name among them, and publishes them."""
    described, records = sinks_study(**SHOWN)
    write_study(results, described)
    write_records(results, *map(with_settings, records), entry("sinks", "hostile", 0, measured("loss", 1.0), label=HOSTILE))
    return report(results, **options)
