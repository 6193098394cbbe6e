"""What the committed configurations promise of each other."""

from pathlib import Path

import numpy as np

from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.to_model import training_flops
from leadline.experiments.data.source import vocabulary_size
from leadline.experiments.training.group import structure

CONFIGS = Path(__file__).parents[3] / "configs"


def test_vocabularies_are_compared_at_equal_flops() -> None:
    path = CONFIGS / "vocabulary.toml"
    (study,) = load_studies(path)
    flops = [
        arm.train.steps
        * arm.train.batch
        * arm.data.length
        * training_flops(structure(arm, vocabulary_size(arm.data)).model, arm.data.length)
        for arm in arms_of(study, path)
    ]
    np.testing.assert_allclose(flops, 2e12, rtol=5e-3)


def test_lengths_are_measured_beyond_that_of_training() -> None:
    """Retrieval at four times the training length; streams of a million tokens."""
    for path in sorted([*CONFIGS.glob("*.toml"), *CONFIGS.glob("accelerator/*.toml")]):
        for study in load_studies(path):
            measure = study.measure
            if measure.retrieval is not None and study.data is not None:
                assert measure.retrieval.lengths == tuple(factor * study.data.length for factor in (1, 2, 4)), path
            if measure.streaming is not None:
                assert measure.streaming.tokens >= 10**6, path
