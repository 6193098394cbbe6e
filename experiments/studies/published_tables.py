"""The tables and figures of a published model that the command line measures, as published_tables.toml beside has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.experiments.config.exact import PublishedStudy
from leadline.experiments.config.toml_file import read_toml

BOUND = "base_bound"
# What can be measured, in the order of the page.
TABLES = ("inputs", "context", "streaming", "interventions", "perplexity", "prompts", "languages", BOUND)
FILE = Path(__file__).with_suffix(".toml")


def specs_of(name: str, exact: PublishedStudy) -> dict[str, list[dict[str, Any]]]:
    """`tables` and `figures` of a study, as its file would have them, of what is measured.

    Args:
        name: of the model, for the titles.
        exact: what is measured.
    """
    measure = exact.measure
    measured = {table for table in TABLES if (exact.base_bound if table == BOUND else getattr(measure, table) is not None)}
    values: dict[str, object] = {"model": name, "sink": measure.sink.length, "epsilon": measure.sink.epsilon}
    if measure.inputs is not None:
        values["sequences"] = measure.inputs.sequences
    if measure.streaming is not None:
        values |= {"cache": measure.streaming.cache, "tokens": measure.streaming.tokens}
        values["full_attention"] = measure.streaming.full_attention
    if measure.interventions is not None:
        values["length"] = measure.interventions.length
    if measure.perplexity is not None:
        values["last"] = measure.perplexity.last
    specs = read_toml(FILE)
    return {kind: [filled(spec, values) for spec in specs[kind] if spec["where"]["table"] in measured] for kind in specs}


def filled(tree: Any, values: Mapping[str, object]) -> Any:
    """The tree with `{NAME}` in its texts replaced; a text that is nothing else becomes the value."""
    match tree:
        case str():
            alone = tree.removeprefix("{").removesuffix("}")
            return values[alone] if alone in values and tree == f"{{{alone}}}" else tree.format(**values)
        case list():
            return [filled(entry, values) for entry in tree]
        case dict():
            return {key: filled(entry, values) for key, entry in tree.items()}
    return tree
