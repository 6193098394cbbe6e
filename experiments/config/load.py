"""From a TOML file and `key=value` words to checked studies and their arms, with errors that name the key and its neighbour."""

import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from leadline.experiments.config.base import Tree, nearest, validated
from leadline.experiments.config.exact import Released
from leadline.experiments.config.paths import with_paths
from leadline.experiments.config.study import Arm, Start, Study
from leadline.experiments.config.toml_file import DEEPEST, read_toml, value_of, with_statements, without_claims
from leadline.experiments.runtime.errors import UserError

Result = TypeVar("Result")
# What an arm may change, and what it says of itself.
SECTIONS = ("model", "data", "train", "measure")
DESCRIPTIONS = ("label", "published", "start")


def load_studies(path: Path, words: Sequence[str] = ()) -> list[Study]:
    """The study of a file, or the studies of a suite (`studies = ["a.toml", …]`, relative to it), each with `words` applied.

    A word is `key=value`; in a suite it begins with the study it is for: `sinks.train.steps=100`. UserError for whatever
    cannot be read, named with its file, and for two studies of one name.
    """
    return _distinct(_loaded(path, words))


def load_all(paths: Iterable[Path]) -> list[Study]:
    """The studies of several files. UserError as `load_studies`."""
    return _distinct(itertools.chain.from_iterable(_loaded(path, ()) for path in paths))


def _loaded(path: Path, words: Sequence[str]) -> list[tuple[Study, Path]]:
    """The studies of a file, each with the file that it is in."""
    tree = _tree(path)
    if "studies" not in tree:
        return [(_study(tree, words, path), path)]
    unknown = sorted(set(tree) - {"studies"})
    if unknown:
        raise UserError(f"{path}: a suite has the key 'studies' only, not {', '.join(map(repr, unknown))}")
    files = tree["studies"]
    if not isinstance(files, list) or not files or not all(isinstance(name, str) for name in files):
        raise UserError(f'{path}: studies: a list of TOML files, as in studies = ["sinks.toml"]')
    members = [path.parent / name for name in files]
    trees = together(_tree, [(member,) for member in members])
    names = [str(tree.get("study")) for tree in trees]
    for word in words:
        if _addressed(word, names) is None:
            raise UserError(f"{word!r}: in a suite a key begins with its study, {' or '.join(names)}: {names[0]}.{word}")
    words_of = [[w.removeprefix(f"{name}.") for w in words if _addressed(w, names) == name] for name in names]
    return list(zip(together(_study, zip(trees, words_of, members, strict=True)), members, strict=True))


def _addressed(word: str, names: Sequence[str]) -> str | None:
    """The study that a word of a suite is for; None where it begins with none. A name may have dots, and begin another one."""
    return max((name for name in names if word.startswith(f"{name}.")), key=len, default=None)


def _distinct(studies: Iterable[tuple[Study, Path]]) -> list[Study]:
    """Studies without their files. UserError for two of one name, which would overwrite each other."""
    by_name: dict[str, tuple[Study, Path]] = {}
    for study, file in studies:
        if (name := study.study) in by_name:
            raise UserError(
                f"the studies of {by_name[name][1]} and {file} are both called {name!r}: give each a name of its own"
            )
        by_name[name] = study, file
    return [study for study, _ in by_name.values()]


def together(function: Callable[..., Result], calls: Iterable[tuple[Any, ...]]) -> list[Result]:
    """Calls a function with each tuple of arguments and returns the results.

    Raises:
        UserError: with the mistakes of all calls, after the last one.
    """
    results, mistakes = [], []
    for arguments in calls:
        try:
            results.append(function(*arguments))
        except UserError as error:
            mistakes += str(error).splitlines()
    if mistakes:
        raise UserError("\n".join(dict.fromkeys(mistakes)))
    return results


def _study(tree: Tree, words: Sequence[str], path: Path) -> Study:
    """A study with its words. UserError also where two arms have one label, and where a table or figure is to show no arm."""
    study = validated(Study, overridden(tree, words, "train.steps=100"), str(path))
    called: dict[str, str] = {}
    for name, (_, label) in named_arms(study).items():
        if (other := called.setdefault(str(label), name)) != name:
            raise UserError(f"{path}: the arms {other} and {name} are both called {label!r}: give each a label of its own")
    labels = list(called)
    labels += [_label(family, written) for family, written in study.arms.items()]
    for kind, specs in (("tables", study.tables), ("figures", study.figures)):
        for number, spec in enumerate(specs):
            for label in spec.labels if study.exact is None else ():
                if label not in labels:
                    raise UserError(f"{path}: {kind}.{number}.labels: no arm is called {label!r}{nearest(label, labels)}")
    here, file = Path.cwd(), path.resolve()
    file = file.relative_to(here) if file.is_relative_to(here) else Path(file.name)  # records name no folder of a machine
    return study.model_copy(update={"command": study.command or f"leadline run {shlex.quote(file.as_posix())}"})


def arms_of(study: Study, path: Path) -> list[Arm]:
    """The arms of a study that are to run, each merged with what the study shares, times the cross product of its sweep.

    An arm with a `start` is merged with the arm that it starts from too, and in a sweep starts from the one of equal values.
    """
    shared = study.model_dump(include=set(SECTIONS))
    written = _written(study)
    chains = {family: _chain(family, written, path) for family in written}
    running = _running(study, chains, path)

    def arm(name: str, family: str, label: str, swept: Tree) -> Arm:
        where = f"{path}: arms.{name}"
        changes: Tree = {}
        for ancestor in reversed(chains[family]):
            changes = _merged(changes, {k: v for k, v in written[ancestor].items() if k not in DESCRIPTIONS})
        changes = _merged(changes, swept)
        for key in changes:
            if key not in SECTIONS:
                raise UserError(f"{where}.{key}: unknown key{nearest(key, [*SECTIONS, *DESCRIPTIONS])}")
        described = {"name": name, "label": label, "published": written[family].get("published", ())}
        return validated(Arm, {**_merged(shared, changes), **described}, where)

    swept = [parts for parts in _swept(study) if parts[1] in running]
    arms = dict(zip((name for name, *_ in swept), together(arm, swept), strict=True))
    # Of each arm those that it starts from, nearest first.
    origins = [[ancestor + name.removeprefix(family) for ancestor in chains[family][1:]] for name, family, *_ in swept]
    return [_started(arms[name], [arms[origin] for origin in names]) for name, names in zip(arms, origins, strict=True)]


def _running(study: Study, chains: Mapping[str, Sequence[str]], path: Path) -> set[str]:
    """The arms in `only` and those that they start from; all of them where `only` is empty."""
    for name in study.only:
        if name not in chains:
            raise UserError(f"{path}: only: no arm is called {name!r}{nearest(name, list(chains))}")
    return {ancestor for name in study.only or chains for ancestor in chains[name]}


def named_arms(study: Study) -> dict[str, tuple[str, str]]:
    """Of the name of each arm the name that the file has it under, which all arms of its sweep share, and its label."""
    if isinstance(study.exact, Released):
        return {name: (name, model.label) for name, model in study.exact.models.items()}
    return {name: (family, label) for name, family, label, _ in _swept(study)}


def _written(study: Study) -> Mapping[str, Tree]:
    return study.arms or {"base": {}}


def _swept(study: Study) -> Iterator[tuple[str, str, str, Tree]]:
    """Yields the arms of a study: the name, its key under `arms`, the label, and the settings that the sweep adds."""
    for family, written in _written(study).items():
        for values in itertools.product(*study.sweep.values()):
            name, label, tree = family, _label(family, written), {}
            for key, value in zip(study.sweep, values, strict=True):
                last = key.split(".")[-1]
                name, label = f"{name}_{last}={value}", f"{label}, {last.replace('_', ' ')} {value}"
                tree = _merged(tree, _nested(key, value))
            yield name, family, label, tree


def _chain(name: str, written: Mapping[str, Tree], path: Path) -> list[str]:
    """An arm, the one that it starts from, the one that that one starts from … UserError for no such arm, or a circle."""
    chain = [name]
    while (start := written[chain[-1]].get("start")) is not None:
        where = f"{path}: arms.{chain[-1]}.start"
        if not isinstance(start, str) or start not in written:
            others = [other for other in written if other != chain[-1]]
            raise UserError(f"{where} = {start!r}: no arm of this study{nearest(str(start), others)}")
        if start in chain:
            raise UserError(f"{where} = {start!r}: these arms start from each other in a circle: {', '.join(chain)}")
        chain.append(start)
    return chain


def _started(arm: Arm, origins: Sequence[Arm]) -> Arm:
    """The arm with the length and the steps of those before it, nearest first."""
    if not origins:
        return arm
    steps = sum(origin.train.steps for origin in origins)
    return arm.model_copy(update={"start": Start(arm=origins[0].name, length=origins[-1].data.length, steps=steps)})


def _tree(path: Path, extending: tuple[Path, ...] = ()) -> Tree:
    """Reads a configuration file and merges it into the file that it `extends`. Its paths are relative to its folder.

    Raises:
        UserError: for files that extend each other in a circle, or one that cannot be read.
    """
    if path.resolve() in extending:
        raise UserError(f"{path}: these files extend each other in a circle: {', '.join(map(str, extending))}")
    tree = with_statements(with_paths(read_toml(path), path.parent), path)
    base, ids = tree.pop("extends", None), tree.pop("without_claims", [])
    if base is None and ids:
        raise UserError(f"{path}: without_claims leaves out claims of the file that this one extends: give extends")
    if base is None:
        return tree
    if not isinstance(base, str):
        raise UserError(f'{path}: extends = {base!r}: name one TOML file, as in extends = "../sinks.toml"')
    return _merged(without_claims(_tree(path.parent / base, (*extending, path.resolve())), ids, path), tree)


def overridden(tree: Tree, words: Sequence[str], example: str) -> Tree:
    """The tree with the value of each `key=value`, in TOML or as a bare word.

    Raises:
        UserError: for a word of another form, with an `example` of one for this tree.
    """
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UserError(f"{word!r}: an override is key=value, as in {example}")
        if key.count(".") >= DEEPEST:
            raise UserError(f"{word!r}: the key has more than {DEEPEST} parts")
        tree = _merged(tree, _nested(key, value_of(text)))
    return tree


def _nested(dotted: str, value: object) -> Tree:
    for key in reversed(dotted.split(".")):
        value = {key: value}
    return value  # pyright: ignore[reportReturnType]  # split never returns an empty list


def _merged(tree: Tree, changes: Tree) -> Tree:
    """Tables are merged key by key; a table with another `kind` replaces the old one whole."""
    result = dict(tree)
    for key, value in changes.items():
        old = result.get(key)
        same = isinstance(old, dict) and isinstance(value, dict) and value.get("kind", old.get("kind")) == old.get("kind")
        result[key] = _merged(old, value) if same else value  # pyright: ignore[reportArgumentType]
    return result


def _label(family: str, written: Tree) -> str:
    """The name of an arm in tables and legends, without swept values: its label, or its key with blanks."""
    return written.get("label") or family.replace("_", " ")
