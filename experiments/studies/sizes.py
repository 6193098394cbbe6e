"""The models whose memory a user asks for: arms of a study, released models, and published ones."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from leadline.experiments.config.base import nearest
from leadline.experiments.config.exact import Released
from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Study
from leadline.experiments.data.source import vocabulary_size
from leadline.experiments.measure.memory import Sized, of_decoder, of_shape
from leadline.experiments.published.load import configured
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.published.source import HUB, PACKAGE
from leadline.experiments.runtime.errors import UserError

# A link to the study of released models in configs/, so that it is installed.
RELEASED = Path(__file__).with_name("released.toml")


def sized_models(spec: str, words: Sequence[str], arms: Sequence[str]) -> list[Sized]:
    """The models that a user names. No corpus is read, no tokenizer trained and no weight read.

    Args:
        spec: a study or a suite in TOML; a name in configs/released.toml; or a model as `open_checkpoint` takes it.
        words: `key=value`, of a study.
        arms: of a study, those that are wanted; () is all.

    Raises:
        UserError: where there is no such model or arm, and for a study that has no models of its own.
    """
    if Path(spec).suffix == ".toml":
        models = [model for study in load_studies(Path(spec), words) for model in _of_study(study, Path(spec))]
        if not models:
            raise UserError(f"{spec}: it has no models of its own: name a study that trains some, or a model")
        return _chosen(models, arms, spec)
    if words or arms:
        raise UserError(f"{' '.join([*words, *arms])}: settings and arms are those of a study; name its TOML file, not {spec}")
    if spec.startswith((HUB, PACKAGE)) or Path(spec).exists():
        return [_published(spec)]
    (study,) = load_studies(RELEASED)
    models = {model.name: model for model in _of_study(study, RELEASED)}
    if spec not in models:
        elsewhere = f"a model elsewhere is a path, {HUB}NAME or {PACKAGE}NAME"
        raise UserError(f"{spec}: no such file, and no released model has this name{nearest(spec, list(models))}; {elsewhere}")
    return [models[spec]]


def _of_study(study: Study, path: Path) -> Iterator[Sized]:
    if isinstance(study.exact, Released):
        yield from (of_shape(name, shape.label, shape) for name, shape in study.exact.models.items())
    elif study.exact is None:
        for arm in arms_of(study, path):
            if arm.model.encoder.layers:
                raise UserError(f"{path}: arm {arm.name!r} has an encoder, and only decoders are counted: choose another study")
            yield of_decoder(arm.name, arm.label, arm.model, vocabulary_size(arm.data), arm.data.length)


def _chosen(models: Sequence[Sized], arms: Sequence[str], spec: str) -> list[Sized]:
    names = [model.name for model in models]
    for arm in arms:
        if arm not in names:
            raise UserError(f"{spec}: no arm is called {arm!r}{nearest(arm, names)}")
    return [model for model in models if not arms or model.name in arms]


def _published(spec: str) -> Sized:
    checkpoint = open_checkpoint(spec)
    _, model, context = configured(checkpoint)
    return of_decoder(checkpoint.name, checkpoint.name, model, int(checkpoint.config["vocab_size"]), context)
