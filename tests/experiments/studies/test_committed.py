"""What the committed configurations promise of each other."""

import shlex
from pathlib import Path

import numpy as np

from leadline.experiments.config.load import arms_of
from leadline.experiments.config.to_model import training_flops
from leadline.experiments.training.group import structure
from tests.experiments.committed import COMMITTED, CONFIGS

SCHEMA = CONFIGS.parent / "docs" / "config.schema.json"


def test_a_file_begins_with_its_schema_and_a_comment_and_has_arms_of_different_names() -> None:
    for path, study in COMMITTED:
        directive, comment = path.read_text(encoding="utf-8").splitlines()[:2]
        assert (path.parent / directive.removeprefix("#:schema ")).resolve() == SCHEMA, path
        assert comment.startswith("# "), path
        names = ["computed"] if study.exact is not None else [arm.name for arm in arms_of(study, path)]
        assert len(set(names)) == len(names) >= 1, path


def test_a_study_names_the_command_that_runs_its_file() -> None:
    for path, study in COMMITTED:
        file = shlex.split(study.command)[2]
        assert (CONFIGS.parent / file).resolve() == path, study.command
        assert not Path(file).is_absolute(), study.command


def test_vocabularies_are_compared_at_equal_flops() -> None:
    paths = {CONFIGS / "vocabulary.toml", CONFIGS / "wordpiece.toml"}
    arms = [arm for path, study in COMMITTED if path in paths for arm in arms_of(study, path)]
    a_token = [training_flops(structure(arm).model, arm.data.length, arm.model) for arm in arms]
    tokens = [arm.train.steps * arm.train.batch * arm.data.length for arm in arms]
    np.testing.assert_allclose(np.multiply(tokens, a_token), 2e12, rtol=5e-3)


def test_lengths_are_measured_beyond_that_of_training() -> None:
    """Retrieval at four times the training length; streams of a million tokens."""
    for path, study in COMMITTED:
        retrieval, streaming = study.measure.retrieval, study.measure.streaming
        if path.parent.name != "smoke" and retrieval is not None and study.data is not None:
            assert retrieval.lengths == tuple(factor * study.data.length for factor in (1, 2, 4)), path
        if path.parent.name != "smoke" and streaming is not None:
            assert streaming.tokens >= 10**6, path
