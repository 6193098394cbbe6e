"""Seeds that are added where claims are undecided."""

from pathlib import Path

import pytest

from leadline.experiments.config.load import arms_of
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.record import Record
from leadline.experiments.records.sequential import seeds_of_look
from leadline.experiments.records.verdict import verdicts
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.studies.decide import looks, with_plan
from tests.experiments.configured import EXTRAPOLATION, studies_of
from tests.experiments.records.claimed import record

TEXT = f"""{EXTRAPOLATION}
[arms.plain]
[arms.origin]
model.sink = {{ kind = "key_bias" }}
[arms.middle]
start = "origin"
data.length = 8
[arms.biased]
start = "middle"
data.length = 16
[arms.other]
model.sink = {{ kind = "learned" }}
[selectors]
softmax = {{ "model.sink" = "none" }}
key_bias = {{ start = true, "model.sink" = {{ kind = "key_bias" }} }}
learned = {{ "model.sink" = {{ kind = "learned" }} }}
[[claims]]
id = "small"
statement = "A key bias gives a lower sink rate than softmax."
left = {{ quantity = "sink_rate", arm = "key_bias" }}
relation = "below"
right = {{ quantity = "sink_rate", arm = "softmax" }}
[[claims]]
id = "large"
statement = "A learned sink logit gives a lower sink rate than softmax."
left = {{ quantity = "sink_rate", arm = "learned" }}
relation = "below"
right = {{ quantity = "sink_rate", arm = "softmax" }}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    plain = studies_of(tmp_path, TEXT)[0].model_copy(update={"seeds": (4, 5, 6), "explored": (8,)})
    return with_plan(plain, None, 6, decide=True)


def _record(study: Study, arm: Arm, number: int, seed: int) -> Record:
    """Softmax has a rate of 0.5, a learned logit one of 0 and the others one that is lower by a little in the mean."""
    noise = 0.05 * (-1) ** seed
    rate = {"plain": 0.5, "other": 0.0 + noise / 100}.get(arm.name, 0.45 + noise)
    measured = {"measurements": (Measurement("sink_rate", rate, "share"),), "seconds": 120.0}
    return record(study.study, arm.name, number, seed, arm.model_dump()).model_copy(update=measured)


def test_seeds_follow_those_of_the_study_and_leave_out_those_of_its_recipe(study: Study) -> None:
    assert seeds_of_look(study.seeds, study.explored, 6) == [4, 5, 6, 7, 9, 10]


def test_a_plan_of_looks_stays_with_its_records(study: Study) -> None:
    plain = study.model_copy(update={"most_seeds": None})
    assert with_plan(plain, None, None, decide=False).most_seeds is None
    assert with_plan(plain, None, None, decide=True).most_seeds == 30
    for decide in (True, False):
        assert with_plan(plain, study, None, decide=decide).most_seeds == 6
        assert with_plan(study, plain, None, decide=decide).most_seeds == 6
        assert with_plan(plain, study.model_copy(update={"seeds": (7,)}), None, decide=decide).most_seeds != 6
    many = plain.model_copy(update={"seeds": tuple(range(40))})
    assert with_plan(many, None, None, decide=True).most_seeds == 40
    with pytest.raises(UserError, match=r"--limit 2: .* has 3 seeds already; give a larger limit"):
        with_plan(plain, None, 2, decide=True)
    with pytest.raises(UserError, match=r"--limit 40: .* are planned for 6 seeds; leave --limit out"):
        with_plan(plain, study, 40, decide=True)
    with pytest.raises(UserError, match=r"most_seeds = 9, and its looks are planned for 6 seeds; set 6 or leave it out"):
        with_plan(study.model_copy(update={"most_seeds": 9}), study, None, decide=False)


def test_seeds_of_the_recipe_and_seeds_beyond_the_plan_are_not_judged(study: Study) -> None:
    arms = arms_of(study, Path())
    records = [_record(study, arm, number, seed) for number, arm in enumerate(arms) for seed in range(4, 20)]
    assert [verdict.n for verdict in verdicts({study.study: study}, records)] == [6, 6]
    unplanned = study.model_copy(update={"most_seeds": None})
    assert [verdict.n for verdict in verdicts({study.study: unplanned}, records)] == [3, 3]


def test_arms_of_undecided_claims_and_those_that_they_start_from_alone_get_more_seeds_until_the_limit(study: Study) -> None:
    study, arms = study.model_copy(update={"most_seeds": 8}), arms_of(study, Path())
    records = [_record(study, arm, number, seed) for number, arm in enumerate(arms) for seed in study.seeds]
    numbers = {arm.name: number for number, arm in enumerate(arms)}
    said: list[str] = []
    asked = []
    for chosen, seeds in looks(study, arms, records.copy, said.append):
        asked.append(([arm.name for arm in chosen], seeds))
        known = {(entry.arm, entry.seed) for entry in records}
        waiting = [(arm, seed) for arm in chosen for seed in seeds if (arm.name, seed) not in known]
        records.extend(_record(study, arm, numbers[arm.name], seed) for arm, seed in waiting)
    needed = ["plain", "origin", "middle", "biased"]
    assert asked == [(needed, [4, 5, 6, 7, 9]), (needed, [4, 5, 6, 7, 9, 10, 11, 12])]
    assert said[0] == (f"{study.study}: undecided: small; 4 arms with 5 seeds: 8 models to train, about 0:16:00")


def test_claims_on_arms_that_do_not_run_get_no_seeds(study: Study) -> None:
    arms = arms_of(study, Path())
    records = [_record(study, arm, number, seed) for number, arm in enumerate(arms) for seed in study.seeds]
    said: list[str] = []
    assert list(looks(study, [arm for arm in arms if arm.name in ("plain", "other")], lambda: records, said.append)) == []
    assert said == [f"{study.study}: undecided, and not all of their arms run: small"]


def test_nothing_is_trained_where_every_claim_is_decided(study: Study) -> None:
    arms = arms_of(study, Path())
    one = study.model_copy(update={"claims": study.claims[1:]})
    records = [_record(study, arm, number, seed) for number, arm in enumerate(arms) for seed in study.seeds]
    assert list(looks(one, arms, lambda: records, pytest.fail)) == []
