"""Text of a trained model, from the folder of its record."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import LearnedPositions
from leadline.experiments.config.study import Arm, Start
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.tokenizer import Characters
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.training.generation import Piece, Request, Text, generated, prompt_ids, text_tokenizer
from leadline.experiments.training.group import Member
from leadline.experiments.training.saved import Saved, TrainedModel, open_saved
from leadline.model.decoder import apply_decoder, init_decoder
from leadline.model.generate import Policy
from leadline.model.mesh import make_mesh
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.saving import save
from tests.experiments.training.runs import LENGTH, STEPS, Watched, changed, run

pytestmark = pytest.mark.usefixtures("in_use")
PROMPT = "Document 7 "
TOKENIZER = Characters(kind="character", vocabulary=64)


def text_arm(folder: Path) -> Arm:
    data = TextData(corpus=(str(folder),), length=LENGTH, held_out=0.3, tokenizer=TOKENIZER)
    return changed("rope").model_copy(update={"data": data})


@pytest.fixture(scope="module")
def results(in_use: None, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """A model of text by characters."""
    results = tmp_path_factory.mktemp("generation") / "results"
    run(results, [text_arm(corpus)], (0,))
    return results


@pytest.fixture(scope="module")
def folder(results: Path) -> Path:
    (folder,) = results.glob("*/rope-*/s0")
    return folder


@pytest.fixture(scope="module")
def saved(folder: Path) -> Saved:
    return open_saved(folder)


def request(
    prompt: str = PROMPT, tokens: int = 20, policy: Policy = Policy(), temperature: float = 0.0, seed: int = 3
) -> Request:
    return Request((prompt,), tokens, temperature, None, 1.0, seed, policy)


def ids_of(saved: TrainedModel, wanted: Request) -> list[tuple[int, ...]]:
    """The ids of each text."""
    return [sum((piece.ids for piece in pieces), ()) for pieces in zip(*generated(saved, wanted), strict=True)]


def test_greedy_text_is_what_the_model_finds_likeliest(saved: Saved) -> None:
    pieces = [piece for (piece,) in generated(saved, request())]
    ids = [token for piece in pieces for token in piece.ids]
    prompt, tokenizer = prompt_ids(saved, PROMPT), text_tokenizer(saved)
    assert len(ids) <= 20
    written = [token for token in ids if token < tokenizer.vocabulary_size]  # the model has room for more ids
    assert "".join(piece.text for piece in pieces) == tokenizer.decode(written).decode()
    with jax.set_mesh(make_mesh()):
        params = jax.tree.map(jnp.asarray, saved.params)
        whole = jnp.asarray(np.concatenate([prompt, np.asarray(ids, np.int32)])[None])
        rows = tables(saved.model, saved.original_length, whole.shape[1])
        scores, _ = jax.jit(apply_decoder, static_argnames="cfg")(params, whole, rows, saved.cfg)
    np.testing.assert_array_equal(np.argmax(scores[0, len(prompt) - 1 : -1], axis=-1), ids)


def test_a_text_needs_positions_for_its_own_tokens_alone() -> None:
    """Not for those that are decoded beyond it, to the end of a piece."""
    positions, tokenizer = LearnedPositions(capacity=20), ByteTokenizer()
    model = ModelConfig(layers=1, width=8, heads=2, hidden=8, position=positions)
    cfg = decoder_config(model, tokenizer.vocabulary_size, LENGTH)
    with jax.set_mesh(make_mesh()):
        params = jax.device_get(init_decoder(jax.random.key(0), cfg))
    learned = TrainedModel("learned", model, LENGTH, LENGTH, add_bos=False, cfg=cfg, params=params, tokenizer=tokenizer)
    (shorter,), (longest,) = (ids_of(learned, request("12345678", tokens)) for tokens in (4, 12))
    assert (len(shorter), shorter) == (4, longest[:4])
    with pytest.raises(UserError, match="learned positions end at 20 tokens, this text has 21"):
        ids_of(learned, request("12345678", 13))


def test_policies_and_seeds_are_heeded(saved: Saved) -> None:
    ways = (request(), request(policy=Policy(4)), request(policy=Policy(4, 2)))
    written = [ids_of(saved, way)[0] for way in ways]
    assert len(set(written)) > 1
    drawn, again, other = (ids_of(saved, request(temperature=2.0, seed=seed))[0] for seed in (3, 3, 4))
    assert drawn == again != other


def test_each_text_of_a_batch_is_that_of_its_prompt_alone(saved: Saved) -> None:
    prompts = (PROMPT, "Do", "Document 12")
    together = ids_of(saved, replace(request(), prompts=prompts))
    assert together == [ids_of(saved, request(prompt))[0] for prompt in prompts]


def test_a_text_ends_with_its_document_whatever_the_others_do() -> None:
    """Byte 0xc3 begins a character that the next token would end."""
    text = Text(ByteTokenizer(), np.asarray([97]))
    assert text.read([98, 0xC3], last=False) == Piece((98, 0xC3), "b", last=False)
    assert text.read([0xA9, 258, 99], last=False) == Piece((0xA9,), "é", last=True)
    assert text.read([100], last=True) == Piece((), "", last=True)
    cut = Text(ByteTokenizer(), np.asarray([97]))
    assert cut.read([0xC3], last=True) == Piece((0xC3,), "\ufffd", last=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda saved: prompt_ids(saved, ""), "the prompt is empty"),
        (lambda saved: prompt_ids(saved, "Document ж€ж"), "does not know 'ж', '€'"),
        (lambda saved: list(generated(saved, request(temperature=float("inf")))), "temperature"),
    ],
)
def test_what_cannot_be_written_is_said(saved: Saved, call: Callable[[Saved], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(saved)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such folder"),
        (lambda copy: (copy / "record.json").unlink(), r"record.json: No such file"),
        (lambda copy: shutil.rmtree(copy / "checkpoint"), "there is no checkpoint; delete the folder"),
        (lambda copy: shutil.rmtree(copy / "checkpoint" / "tokenizer"), "no tokenizer is saved there"),
        (lambda copy: save(ByteTokenizer(), copy / "checkpoint" / "tokenizer"), "not the tokenizer that these .*; restore it"),
    ],
)
def test_a_folder_that_is_not_whole_is_named(folder: Path, tmp_path: Path, damage: Callable[..., object], message: str) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    damage(copy)
    with pytest.raises(UserError, match=message):
        open_saved(copy)


def test_nothing_starts_from_weights_of_another_tokenizer(results: Path, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "results")
    lower = TOKENIZER.model_copy(update={"normalization": ("lower",)})
    other = changed("other", text_arm(corpus), data={"tokenizer": lower})
    other = other.model_copy(update={"start": Start(arm="rope", length=LENGTH, steps=STEPS)})
    with pytest.raises(UserError, match=r"rope-.*: these weights were trained with another tokenizer than 'other' has"):
        run(tmp_path / "results", [text_arm(corpus), other], (0,))


def test_a_run_does_not_go_on_with_another_tokenizer(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Interrupted):
        run(tmp_path, [text_arm(corpus)], (0,), Watched(stop_at=2, group=2))  # the first work is to encode the texts
    monkeypatch.setattr(Member, "tokenizer_digest", property(lambda member: f"not {member.source.tokenizer.digest()}"))
    with pytest.raises(UserError, match=r"\.group-.*: these weights were trained with another tokenizer than 'rope' has"):
        run(tmp_path, [text_arm(corpus)], (0,))
