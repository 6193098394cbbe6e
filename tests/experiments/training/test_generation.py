"""Text of a trained model, from the folder of its record."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.study import Arm, Start
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.tokenizer import Characters
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.training import saving
from leadline.experiments.training.generation import Request, generated, open_saved, prompt_ids
from leadline.model.decoder import apply_decoder
from leadline.model.generate import Policy
from leadline.model.mesh import make_mesh
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.saving import save
from tests.experiments.training.runs import LENGTH, SOFTMAX, STEPS, Watched, changed, run

pytestmark = pytest.mark.usefixtures("in_use")
PROMPT = "Line 7 of "


TOKENIZER = Characters(kind="character", vocabulary=64)


def text_arm(folder: Path) -> Arm:
    data = TextData(corpus=(str(folder),), length=LENGTH, held_out=0.3, tokenizer=TOKENIZER)
    return changed("rope").model_copy(update={"data": data})


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number in range(20):
        (folder / f"{number}.txt").write_text("".join(f"Line {line} of document {number}.\n" for line in range(9)))
    return folder


@pytest.fixture(scope="module")
def results(in_use: None, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """A model of text by characters, and one of a task."""
    results = tmp_path_factory.mktemp("generation") / "results"
    run(results, [text_arm(texts), SOFTMAX], (0,))
    return results


def folder_of(results: Path, arm: str) -> Path:
    (folder,) = results.glob(f"*/{arm}-*/s0")
    return folder


def request(prompt: str = PROMPT, tokens: int = 20, policy: Policy = Policy(), temperature: float = 0.0) -> Request:  # noqa: B008
    return Request(prompt, tokens, temperature, None, 1.0, 3, policy)


def test_greedy_text_is_what_the_model_finds_likeliest(results: Path) -> None:
    saved = open_saved(folder_of(results, "rope"))
    pieces = list(generated(saved, request()))
    ids = [token for piece in pieces for token in piece.ids]
    prompt = prompt_ids(saved, PROMPT)
    assert len(ids) <= 20
    written = [token for token in ids if token < saved.tokenizer.vocabulary_size]  # the model has room for more ids
    assert "".join(piece.text for piece in pieces) == saved.tokenizer.decode(written).decode()
    with jax.set_mesh(make_mesh()):
        params = jax.tree.map(jnp.asarray, saved.params)
        whole = jnp.asarray(np.concatenate([prompt, np.asarray(ids, np.int32)])[None])
        rows = tables(saved.arm.model, saved.arm.original_length, whole.shape[1])
        scores, _ = jax.jit(apply_decoder, static_argnames="cfg")(params, whole, rows, saved.cfg)
    np.testing.assert_array_equal(np.argmax(scores[0, len(prompt) - 1 : -1], axis=-1), ids)


def test_policies_and_seeds_are_heeded(results: Path) -> None:
    saved = open_saved(folder_of(results, "rope"))
    ways = (request(), request(policy=Policy(4)), request(policy=Policy(4, 2)), request(temperature=1.0))
    written = [tuple(token for piece in generated(saved, way) for token in piece.ids) for way in ways]
    assert len(set(written)) > 1
    assert written[3] == tuple(token for piece in generated(saved, ways[3]) for token in piece.ids)


def test_mistakes_are_one_line(results: Path, tmp_path: Path) -> None:
    text = folder_of(results, "rope")
    saved = open_saved(text)
    with pytest.raises(UserError, match="the prompt is empty"):
        prompt_ids(saved, "")
    with pytest.raises(UserError, match="does not know 'ж', '€'"):
        prompt_ids(saved, "Line ж€ж")
    with pytest.raises(UserError, match="no such folder"):
        open_saved(tmp_path / "none")
    with pytest.raises(UserError, match="a task of ids without a tokenizer"):
        open_saved(folder_of(results, "softmax"))
    copy = tmp_path / "copy"
    shutil.copytree(text, copy)
    shutil.rmtree(copy / "checkpoint")
    with pytest.raises(UserError, match="there is no checkpoint; delete the folder"):
        open_saved(copy)
    with pytest.raises(UserError, match=r"record.json: No such file"):
        open_saved(tmp_path)
    with pytest.raises(UserError, match="temperature"):
        list(generated(saved, request(temperature=float("inf"))))


def test_nothing_starts_from_weights_of_another_tokenizer(results: Path, texts: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "results")
    lower = TOKENIZER.model_copy(update={"normalization": ("lower",)})
    other = changed("other", text_arm(texts), data={"tokenizer": lower})
    other = other.model_copy(update={"start": Start(arm="rope", length=LENGTH, steps=STEPS)})
    with pytest.raises(UserError, match=r"rope-.*: these weights were trained with another tokenizer than 'other' has"):
        run(tmp_path / "results", [text_arm(texts), other], (0,))


def test_a_run_does_not_go_on_with_another_tokenizer(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Interrupted):
        run(tmp_path, [text_arm(texts)], (0,), Watched(stop_at=2, group=2))  # the first work is to encode the texts
    monkeypatch.setattr(saving, "_digest", lambda source: f"not {source.tokenizer.digest()}")
    with pytest.raises(UserError, match=r"\.group-.*: these weights were trained with another tokenizer than 'rope' has"):
        run(tmp_path, [text_arm(texts)], (0,))


def test_no_text_is_written_with_another_tokenizer(results: Path, tmp_path: Path) -> None:
    shutil.copytree(folder_of(results, "rope"), tmp_path / "copy")
    save(ByteTokenizer(), tmp_path / "copy" / "checkpoint" / "tokenizer")
    with pytest.raises(UserError, match="not the tokenizer that these weights were trained with; restore it"):
        open_saved(tmp_path / "copy")
