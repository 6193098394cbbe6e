"""What every class of a configuration shares.

This folder says what a TOML file may say: every key, its range and its default. Nothing else in the project knows a default.
Mechanisms are tagged values (`kind`). A mistake is one line that names the key and its neighbour.
"""

import difflib
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.experiments.runtime.errors import UserError

Tree = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, le=1)]
Factor = Annotated[float, Field(ge=1)]  # by which a context grows


class Frozen(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


# Keys of an exact study that stood at the top of the file.
OF_EXACT = (
    "head_dims",
    "lengths",
    "inclusive",
    "every",
    "tokenizers",
    "vocabularies",
    "exponents",
    "texts",
    "reference",
    "window",
)
# Keys that have another name now, under the table that they stood in ("" is the top of the file).
RENAMED = {
    ("model", "kernel"): "normalizer",
    ("model", "kept"): "initial_tokens",
    ("model", "scalable"): "scalable_softmax",
    ("model", "compute"): "compute_dtype",
    ("position", "kept"): "p",
    ("data", "own_values"): "values_per_key",
    ("measure", "sequences"): "windows",
    ("measure", "lengths"): "perplexity.lengths, retrieval.lengths or recall.lengths",
    ("measure", "extensions"): "perplexity.extensions",
    ("measure", "last"): "perplexity.last or recall.last",
    ("measure", "stride"): "perplexity.stride or streaming.stride",
    ("measure", "rows"): "retrieval.rows or recall.rows",
    ("measure", "depths"): "retrieval.depths",
    ("measure", "hidden"): "ablation.hidden",
    ("measure", "map"): "ablation.map",
    ("measure", "kept"): "streaming.initial_tokens",
    ("measure", "in_text"): "streaming.text_positions",
    ("measure", "dense"): "streaming.full_attention",
    ("measure", "recomputed"): "streaming.recomputed",
    ("measure", "cache"): "streaming.cache",
    ("measure", "bytes"): "vocabulary.bytes",
    ("measure", "tokens"): "windows, perplexity.windows or streaming.tokens",
    **{("", name): f"exact.{name}" for name in OF_EXACT},
}


def validated(kind: type[Model], tree: Tree, where: str) -> Model:
    """The tree as a value of a class. UserError, in one line, for what it does not accept."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error.errors()[0], kind)}") from None


def _explain(error: Any, kind: type[BaseModel]) -> str:
    """One line: the key as it is written in the file, what is wrong, and the nearest valid key or the range."""
    location = [str(part) for part in error["loc"]]
    parents, valid = _walk(location, kind)
    key = ".".join(parents)
    match error["type"]:
        case "extra_forbidden" if (new_name := _renamed(parents)) is not None:
            return f"{key}: this key is named {new_name} now"
        case "extra_forbidden":
            return f"{key}: unknown key{nearest(parents[-1], valid)}"
        case "missing":
            return f"{key}: this key is required"
        case "union_tag_not_found":
            tag = error["ctx"]["discriminator"].strip("'")
            return f"{f'{key}.' if key else ''}{tag}: this key is required"
        case "union_tag_invalid":
            tags = [tag.strip(" '") for tag in error["ctx"]["expected_tags"].split(",")]
            tag = error["ctx"]["discriminator"].strip("'")
            return f"{f'{key}.' if key else ''}{tag} = {error['ctx']['tag']!r}: unknown{nearest(error['ctx']['tag'], tags)}"
        case "value_error":
            return f"{f'{key}: ' if key else ''}{error['ctx']['error']}"
        case _:
            message = error["msg"][0].lower() + error["msg"][1:]
            return f"{key} = {error['input']!r}: {message.replace('input ', '')}"


def _renamed(parents: Sequence[str]) -> str | None:
    table = parents[-2] if len(parents) > 1 else ""
    return RENAMED.get((table, parents[-1]))


def _walk(location: list[str], kind: type[BaseModel]) -> tuple[list[str], list[str]]:
    """Follows pydantic's location through the classes: the keys without the tags of unions, and the keys valid at the end."""
    kinds, keys, valid = [kind], [], []
    for part in location:
        tagged = [kind for kind in kinds if part in _tags(kind)]
        if tagged:
            kinds = tagged
            continue
        keys.append(part)
        if part.isdigit():  # of a list, whose elements are of the same kinds
            continue
        valid = sorted({name for kind in kinds for name in kind.model_fields})
        fields = [kind.model_fields[part].annotation for kind in kinds if part in kind.model_fields]
        kinds = [model for annotation in fields for model in _classes(annotation)]
    return keys, valid


def _classes(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _classes(part)]


def _tags(kind: type[BaseModel]) -> tuple[str, ...]:
    """The values by which a union knows this class."""
    return get_args(kind.model_fields["kind"].annotation) if "kind" in kind.model_fields else ()


def nearest(key: str, valid: Sequence[str]) -> str:
    """The ending of a message about an unknown name: the valid one that is most like it, or all of them."""
    close = difflib.get_close_matches(key, valid, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; valid here: {', '.join(valid)}"
