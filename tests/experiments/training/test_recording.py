"""What is kept of each model, where the disk refuses."""

from pathlib import Path

import pytest

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training import recording
from leadline.experiments.training.group import Member
from tests.experiments.measure.kinds.toys import arm, models_of, source_of


def test_a_tokenizer_for_which_there_is_no_room_is_one_line(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "save_tokenizer", refuse)
    rope, source = arm("rope", "text"), source_of("text", corpus)
    member, (params,) = Member(rope, 0, "0" * 12, tmp_path, source), models_of([rope], source, (1,)).params
    with pytest.raises(UserError, match=r"checkpoint: cannot write the tokenizer \(No space left on device\); free the disk$"):
        recording.save_weights(member, 4, params, lambda: None)
