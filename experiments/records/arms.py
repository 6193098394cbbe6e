"""The arms of recorded studies, chosen by what their configuration is and never by their names."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from leadline.experiments.config.report import Selector
from leadline.experiments.config.study import Arm, Settings, Study
from leadline.experiments.records.record import Record
from leadline.experiments.records.sequential import seeds_of_look

TRAINED = ("model", "data", "train", "measure")
START = "start"  # the key of a selector that says whether an arm goes on from the weights of another one
_ABSENT = object()
Tree = Mapping[str, Any]


@dataclass(frozen=True)
class RecordedArm:
    """The records of one configuration."""

    settings: Tree  # the configuration with all defaults; of an exact study what decides its numbers
    leaves: Tree  # dotted key -> value of all settings but what is measured
    # the keys of leaves that differ from what the arms of the study share; none where nothing is trained
    changes: frozenset[str]
    started: bool  # whether it goes on from the weights of another arm
    training_length: int | None  # at which its first weights were trained [tokens]; None where nothing is trained
    members: tuple[Record, ...] = ()  # its records, those that diverged included, by seed

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"{self.members[0].arm} ({self.members[0].arm_hash})"

    @property
    def records(self) -> list[Record]:
        """The finished ones."""
        return [record for record in self.members if record.status == "finished"]


def judged_seeds(study: Study) -> list[int]:
    """The seeds that verdicts are of: those of a study, and those that its plan may add."""
    return seeds_of_look(study.seeds, study.explored, study.most_seeds or len(study.seeds))


def recorded_arms(study: Study, records: Sequence[Record]) -> list[RecordedArm]:
    """The arms of a study that are on record, in the order of their configurations.

    A configuration that today's classes do not accept is no arm of the study as it is now, and is left out. So are seeds that
    are neither the study's own nor of its plan.
    """
    judged = judged_seeds(study)
    of_plan = (r for r in records if r.study == study.study and (study.exact is not None or r.seed in judged))
    arms = []
    ordered = sorted(of_plan, key=lambda record: (record.arm_hash, record.seed))
    for _, members in itertools.groupby(ordered, key=lambda record: record.arm_hash):
        by_seed = tuple(members)
        arm = _arm(study, by_seed[0].config, by_seed[0].training_length)
        if arm is not None:
            arms.append(replace(arm, members=by_seed))
    return arms


def planned_arm(study: Study, arm: Arm) -> RecordedArm | None:
    """An arm of a study that has no records yet, for selectors to match."""
    return _arm(study, arm.model_dump(mode="json"), arm.original_length)


def recorded_arm(study: Study, record: Record) -> RecordedArm | None:
    """The arm of a record of any study, as an arm of this one."""
    return _arm(study, record.config, record.training_length)


def _arm(study: Study, config: Tree, training_length: int | None) -> RecordedArm | None:
    settings = with_defaults(config) if study.exact is None else config
    if settings is None:
        return None
    leaves, changes = leaves_of(settings), frozenset()
    if study.exact is None:
        changes = _differences(leaves, leaves_of(study.model_dump(mode="json", include=set(TRAINED))))
    return RecordedArm(settings, leaves, changes, config.get(START) is not None, training_length)


def combinations(
    study: Study, selectors: Sequence[str], arms: Sequence[RecordedArm]
) -> tuple[list[dict[str, RecordedArm]], dict[str, list[RecordedArm]]]:
    """Every choice of one arm for each selector such that the chosen arms agree in all that no selector fixes.

    Returns:
        The choices, and the arms that each selector matches by itself, which tells why there is none.
    """
    matching = {name: [arm for arm in arms if matches(study.selectors[name], arm)] for name in selectors}
    choices = (dict(zip(selectors, choice, strict=True)) for choice in itertools.product(*matching.values()))
    return [choice for choice in choices if _agree(study, choice)], matching


def matches(selector: Selector, arm: RecordedArm) -> bool:
    """Whether an arm has the values of a selector and, elsewhere, the settings that the arms of its study share.

    A text stands for the `kind` of a table, true and false for a table that is there and one that is not, "none" also for a
    setting whose value is null, and "any" for every value. A table is compared with its defaults and as a whole, a list names
    alternatives, `{ multiple = 4 }` is a multiple of the training length. A selector with an unknown key matches no arm. What
    is measured is compared only where a key names it. An arm that goes on from another one (`start = true`) trains by a recipe
    of its own, so its [train] may differ.
    """
    keys = [key for key in selector if key != START]
    free = [*keys, "train"] if arm.started else keys
    if arm.started != bool(selector.get(START, False)) or not _inside(arm.changes, free):
        return False
    return all(has(arm.settings, key, selector[key], arm.training_length) for key in keys)


def distinguishing_settings(arms: Sequence[RecordedArm]) -> list[str]:
    """The settings that tell arms apart, as `length = 1024`: the single one that differs in all of them, or else all."""
    keys = sorted({key for arm in arms for key in arm.leaves}, key=lambda key: (key.count("."), key))
    values = {key: [str(arm.leaves.get(key, "absent")) for arm in arms] for key in keys}
    telling = [key for key in keys if len(set(values[key])) > 1]
    single = [key for key in telling if len(set(values[key])) == len(arms)][:1]
    return [", ".join(f"{key} = {values[key][i]}" for key in single or telling) for i in range(len(arms))]


def with_defaults(config: Any) -> Tree | None:
    """The settings of a trained arm as today's classes complete them; None where they do not accept them."""
    try:
        settings = Settings.model_validate({section: config[section] for section in TRAINED if section in config})
    except ValidationError:
        return None
    return settings.model_dump(mode="json")


def has(settings: Tree, key: str, value: object, length: int | None) -> bool:
    """Whether settings have the value of a selector under a dotted key; `length` [tokens] is that of training, if any."""
    current = setting(settings, key)
    match value:
        case "any":
            return current is not _ABSENT
        case "none" if current is None:
            return True
        case bool() if current is None or isinstance(current, Mapping):
            return isinstance(current, Mapping) == value
        case {"multiple": factor, **rest} if not rest and isinstance(factor, int | float):
            return length is not None and current == round(factor * length)
        case Mapping():
            return part_of(value, current) and current == _completed(settings, key, value)
        case list() | tuple() if not isinstance(current, list):
            return any(has(settings, key, alternative, length) for alternative in value)
        case str() if isinstance(current, Mapping):
            return current.get("kind") == value
    return current == value


def part_of(table: object, current: object) -> bool:
    """Whether a table says nothing else than the current one, which may say more."""
    if isinstance(table, Mapping) and isinstance(current, Mapping):
        return all(key in current and part_of(value, current[key]) for key, value in table.items())
    return table == current


def _completed(settings: Tree, key: str, table: Tree) -> Any:
    """A table as it is with its defaults, in the place of the one under a key; absent where it is not possible there."""
    if "model" not in settings:
        return table
    changed = with_defaults(_put(settings, key.split("."), table))
    return _ABSENT if changed is None else setting(changed, key)


def _put(tree: Tree, keys: Sequence[str], value: object) -> Tree:
    return {**tree, keys[0]: _put(tree[keys[0]], keys[1:], value) if len(keys) > 1 else value}


def setting(settings: Tree, key: str) -> Any:
    """What stands under a dotted key, or an object of its own where nothing does."""
    current: Any = settings
    for part in key.split("."):
        current = current.get(part, _ABSENT) if isinstance(current, Mapping) else _ABSENT
    return current


def leaves_of(settings: Tree) -> dict[str, Any]:
    """Dotted key -> value of every setting but what is measured."""
    leaves: dict[str, Any] = {}
    tables = [(name, value) for name, value in settings.items() if name != "measure"]
    while tables:
        name, value = tables.pop()
        if isinstance(value, Mapping):
            tables += [(f"{name}.{key}", entry) for key, entry in value.items()]
        else:
            leaves[name] = value
    return leaves


def _differences(first: Tree, second: Tree) -> frozenset[str]:
    return frozenset(key for key in first.keys() | second.keys() if first.get(key, _ABSENT) != second.get(key, _ABSENT))


def _inside(leaves: frozenset[str], keys: Sequence[str]) -> bool:
    """Whether every leaf is one of the keys, or in a table that one of them names."""
    return all(any(f"{leaf}.".startswith(f"{key}.") for key in keys) for leaf in leaves)


def _agree(study: Study, choice: Mapping[str, RecordedArm]) -> bool:
    """Whether the arms differ only in what one of their selectors fixes to a single value, and no arm is chosen twice.

    Keys with alternatives leave open which arm is meant, so that arms must agree in them. A list is one value where the setting
    is a list.
    """
    for pair in itertools.combinations(choice, 2):
        arm, other = (choice[name] for name in pair)
        fixed = [(key, value, choice[name]) for name in pair for key, value in study.selectors[name].items() if value != "any"]
        listed = ((key, isinstance(value, list | tuple), setting(of.settings, key)) for key, value, of in fixed)
        free = [key for key, several, current in listed if not several or isinstance(current, list)]
        free += ["train"] if arm.started != other.started else []
        if arm is other or not _inside(_differences(arm.leaves, other.leaves), free):
            return False
    return True
