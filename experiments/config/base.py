"""What every class of a configuration shares.

This folder says what a TOML file may say: every key, its range and its default. Nothing else in the project knows a default.
Mechanisms are tagged values (`kind`). All mistakes are said at once, each in one line that names the key and its neighbour.
"""

import difflib
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from leadline.experiments.runtime.errors import UserError

Tree = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, le=1)]
Factor = Annotated[float, Field(ge=1)]  # by which a context grows


class Frozen(BaseModel):
    """Refuses keys that it does not know, values of another type, and values that do not go together.

    A word in the place of a table is its `kind`. A number that may be infinite is a text in JSON, so its
    field is not strict.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False, strict=True)

    def problems(self) -> Iterator[str]:
        """Yields a message for every combination of fields that cannot be. Validation raises all of them as a ValueError."""
        yield from ()

    @model_validator(mode="before")
    @classmethod
    def _kinds(cls, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        types = {name: field.annotation for name, field in cls.model_fields.items()}
        return {key: _as_in_python(value, types.get(key)) for key, value in tree.items()}

    @model_validator(mode="after")
    def _no_problems(self) -> "Frozen":
        if problems := list(self.problems()):
            raise ValueError("\n".join(problems))
        return self


def _as_in_python(value: Any, annotation: Any) -> Any:
    """A value of a field as its type wants it: a word in the place of a table, and a list in that of a tuple."""
    if isinstance(value, str):
        return {"kind": value} if _is_tagged(annotation) else value
    return _with_tuples(value, annotation)


def _with_tuples(value: Any, annotation: Any) -> Any:
    """A tuple in the place of a list where the type has one: TOML and JSON have lists alone."""
    if not isinstance(value, list | dict) or isinstance(annotation, type):  # most values of a record are numbers
        return value
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is tuple and isinstance(value, list):
        types = parts[:1] * len(value) if parts[-1] is Ellipsis else (*parts, *[None] * len(value))
        return tuple(map(_with_tuples, value, types))
    if origin is dict and isinstance(value, dict):
        return {key: _with_tuples(entry, parts[1]) for key, entry in value.items()}
    if origin in (Annotated, Union, UnionType):
        tried = (_with_tuples(value, part) for part in (parts[:1] if origin is Annotated else parts))
        return next((changed for changed in tried if changed is not value), value)
    return value


def _is_tagged(annotation: Any) -> bool:
    """Whether a type is a table with a `kind`, or a choice of such tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "kind" in annotation.model_fields
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part is not type(None)]
    return _is_tagged(parts[0]) if origin is Annotated else origin in (Union, UnionType) and all(map(_is_tagged, parts))


def validated(kind: type[Model], tree: Tree, where: str) -> Model:
    """The tree as a value of a class. UserError with a line for everything that it does not accept."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        lines = [line for mistake in _without_lengths(error.errors()) for line in _explain(mistake, kind).splitlines()]
        raise UserError("\n".join(f"{where}: {line}" for line in dict.fromkeys(lines))) from None


def _without_lengths(mistakes: Sequence[Any]) -> list[Any]:
    """The mistakes without those of lists that are too short because pydantic left out wrong elements, which it names too."""
    above = {mistake["loc"][:depth] for mistake in mistakes for depth in range(len(mistake["loc"]))}
    return [mistake for mistake in mistakes if mistake["type"] != "too_short" or mistake["loc"] not in above]


def _explain(error: Any, kind: type[BaseModel]) -> str:
    """A line for each mistake: the key as it is written in the file, what is wrong, and the nearest valid key or the range."""
    location = [str(part) for part in error["loc"]]
    parents, valid = _walk(location, kind)
    key = ".".join(parents)
    match error["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key{nearest(parents[-1], valid)}"
        case "missing":
            return f"{key}: this key is required"
        case "union_tag_not_found" | "union_tag_invalid" as problem:
            tag = ".".join([*parents, error["ctx"]["discriminator"].strip("'")])
            if problem == "union_tag_not_found":
                return f"{tag}: this key is required"
            tags = [tag.strip(" '") for tag in error["ctx"]["expected_tags"].split(",")]
            return f"{tag} = {error['ctx']['tag']!r}: unknown{nearest(error['ctx']['tag'], tags)}"
        case "value_error":
            return "\n".join(f"{f'{key}: ' if key else ''}{line}" for line in str(error["ctx"]["error"]).splitlines())
        case "tuple_type":
            shown = _shown(error["input"])
            return f"{key} = {shown}: should be a list, as in {key} = [{shown}]"
        case _:
            message = error["msg"][0].lower() + error["msg"][1:]
            return f"{key} = {_shown(error['input'])}: {message.replace('input ', '')}"


def _shown(value: Any) -> str:
    """A value as a file has it, which knows lists only."""
    return repr(value) if not isinstance(value, tuple) else f"[{', '.join(map(_shown, value))}]"


def _walk(location: list[str], kind: type[BaseModel]) -> tuple[list[str], list[str]]:
    """Follows pydantic's location through the classes: the keys without the tags of unions, and the keys valid at the end."""
    kinds, keys, valid = [kind], [], []
    for part in location:
        tagged = [k for k in kinds if "kind" in k.model_fields and part in get_args(k.model_fields["kind"].annotation)]
        if tagged:
            kinds = tagged
            continue
        keys.append(part)
        if part.isdigit():  # of a list, whose elements are of the same kinds
            continue
        valid, kinds = _names(kinds), _below(kinds, part)
    return keys, valid


def unknown_key(key: str, kinds: Sequence[type[BaseModel]]) -> str:
    """What is wrong with a dotted key of a configuration of one of these classes; empty if one of them has it."""
    parts = key.split(".")
    for number, part in enumerate(parts, start=1):
        valid = _names(kinds)
        if part not in valid:
            return f"{'.'.join(parts[:number])!r} is no key of a configuration{nearest(part, valid)}"
        if any(get_origin(kind.model_fields[part].annotation) is dict for kind in kinds if part in kind.model_fields):
            return ""  # the keys of this table are names
        kinds = _below(kinds, part)
    return ""


def _names(kinds: Sequence[type[BaseModel]]) -> list[str]:
    return sorted({name for kind in kinds for name in kind.model_fields})


def _below(kinds: Sequence[type[BaseModel]], key: str) -> list[type[BaseModel]]:
    """The classes that a table of this name may be of."""
    fields = [kind.model_fields[key].annotation for kind in kinds if key in kind.model_fields]
    return list(dict.fromkeys(model for annotation in fields for model in _classes(annotation)))


def _classes(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _classes(part)]


def nearest(key: object, valid: Sequence[object]) -> str:
    """The ending of a message about an unknown name: the valid one that is most like it, or all of them.

    Names in a configuration that is not validated yet may be of any type.
    """
    names = [str(name) for name in valid]
    close = difflib.get_close_matches(str(key), names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; valid here: {', '.join(names) or 'nothing'}"
