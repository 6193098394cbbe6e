"""Every kind of figure, from synthetic records."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from leadline.experiments.config.report import FigureSpec
from leadline.experiments.publish.figures import arrays_read, figure
from leadline.experiments.publish.line_grids import Axis, Line, Panel, line_grid
from leadline.experiments.publish.marks import bars, scatter
from leadline.experiments.publish.style import STYLE, encode, for_pages, tick_text
from leadline.experiments.runtime.errors import UserError
from tests.experiments.synthetic_records import Stored, entry, measured, sinks_study, study

AT = {"length": {"multiple": 8}}
KINDS: dict[str, dict[str, Any]] = {
    "length": {"quantities": ["perplexity"], "lines": ["extension"], "panels": ["arm"], "behind": True},
    "step": {"quantities": ["first_token_mass", "sink_rate"], "lines": ["quantity"], "panels": ["arm"]},
    "value": {"key": "data.length", "quantities": ["loss"]},
    "layer": {"quantities": ["first_token_mass"]},
    "position": {"x": "position_edges", "quantities": ["loss_by_position"], "lines": ["arm", "extension"], "at": AT},
    "dim": {"dim": "length", "quantities": ["perplexity", "loss"], "panels": ["quantity"], "log": ["y"]},
    "scatter": {"x": "first_token_mass", "quantities": ["value_drain_ratio"]},
    "bars": {"quantities": ["first_token_mass", "loss"]},
    "head": {"quantities": ["first_token_mass"], "panels": ["arm"]},
    "attention_map": {"quantities": ["attention_map"], "labels": ["softmax"]},
}
STUDY, RECORDS = sinks_study()


def spec(kind: str, **changes: Any) -> FigureSpec:
    return FigureSpec.model_validate({"kind": kind, "name": kind, "caption": "C.", **KINDS[kind], **changes})


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the figure that is drawn, which is not rendered: that takes longer than all the rest."""
    seen: list[str] = []

    def note(self: Figure, file: Any, **_: Any) -> None:
        self.draw_without_rendering()
        labels = [handle.get_label() for legend in self.legends for handle in legend.legend_handles if handle is not None]
        parts = [self.get_supxlabel(), self.get_supylabel()]
        for axes in self.axes:
            parts += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
            parts += [tick.get_text() for tick in (*axes.get_xticklabels(), *axes.get_yticklabels())]
        seen.extend([*map(str, labels), *parts])
        file.write(b"<svg></svg>")

    monkeypatch.setattr(Figure, "savefig", note)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_and_names_its_arms_and_quantity(kind: str, texts: list[str]) -> None:
    drawn = figure(spec(kind), STUDY, RECORDS)
    assert drawn is not None
    assert drawn.name == f"sinks_{kind}"
    assert {"softmax"} & set(texts) or kind in ("attention_map", "position")
    assert any("(" in text for text in texts if text) or kind == "length"
    assert not any("_" in text for text in texts)


def test_dollar_signs_are_letters_and_no_formula(texts: list[str]) -> None:
    label = r"from $5 to \q$"
    records = [entry("s", name, 0, measured("loss", 2.0), label=name) for name in ("a", "b")]
    described = study("s", {"a": {"label": label}, "b": {}})
    assert figure(spec("bars", quantities=["loss"], title=label), described, records) is not None
    assert label in texts


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_drawn_of_nothing(kind: str) -> None:
    empty = [entry("sinks", "softmax"), entry("sinks", "gate", status="diverged")]
    assert figure(spec(kind), STUDY, empty) is None
    assert figure(spec(kind), STUDY, []) is None


def test_panels_of_one_quantity_share_their_axis() -> None:
    panels = {"first": {"softmax": {"": [0.1, 0.2]}}, "last": {"softmax": {"": [0.8, 0.9]}}}
    axes = {title: Axis(title, share=True) for title in panels}
    together, apart = (bars(panels, axes, [""], shared=shared) for shared in (True, False))
    assert len({drawn.get_xlim() for drawn in together.axes}) == 1
    assert len({drawn.get_xlim() for drawn in apart.axes}) == 2


def test_equal_records_give_equal_bytes() -> None:
    first, second = (figure(spec("bars", labels=["softmax"]), STUDY, RECORDS) for _ in range(2))
    assert first is not None
    assert first == second
    assert first.png.startswith(b"\x89PNG")
    assert b"<svg" in first.svg
    assert b"<dc:date>" not in first.svg


def test_a_line_with_the_training_length_and_grey_ones_are_explained(texts: list[str]) -> None:
    figure(spec("length"), STUDY, RECORDS)
    assert {"as trained", "YaRN", "training length", "as trained, other panels"} <= set(texts)
    assert {"evaluation length (tokens)", "perplexity", "128", "1024"} <= set(texts)


def test_a_sweep_is_a_line_along_its_values_with_marks(texts: list[str]) -> None:
    bases = (10.0, 100.0, 1e6)
    described = study("s", {"a": {"label": "A"}}, sweep={"model.position.base": list(bases)})
    positions = {base: {"model": {"position": {"kind": "rope", "base": base}}} for base in bases}
    records = [
        entry("s", f"a_base={base}", seed, measured("loss", 2.0), measured("predicted_reach", base / 2), config=config)
        for base, config in positions.items()
        for seed in range(2)
    ]
    wanted = spec("value", key="model.position.base", lines=["family"], marks="predicted_reach")
    assert figure(wanted, described, records) is not None
    assert {"RoPE base", "loss (nats)", "10", "100", "10⁶", "predicted reach"} <= set(texts)


def test_a_place_of_two_quantities_is_an_error() -> None:
    with pytest.raises(UserError, match=r"figure '.*': readings of several arms or dimensions fall into one place"):
        figure(spec("step", quantities=["loss", "sink_rate"], lines=["arm"], panels=[]), STUDY, RECORDS)


@pytest.mark.parametrize("wanted", [spec("bars", quantities=["perplexity"], dim="length", lines=[]), spec("head", panels=[])])
def test_a_mean_over_several_arms_is_an_error(wanted: FigureSpec) -> None:
    with pytest.raises(UserError, match=r"figure '.*': readings of several arms or dimensions fall into one place"):
        figure(wanted, STUDY, RECORDS)


def test_a_share_of_seeds_has_its_exact_interval(texts: list[str]) -> None:
    figure(spec("step", quantities=[{"quantity": "sink_rate", "above": 0.3}], lines=["arm"], panels=[]), STUDY, RECORDS)
    assert {"95 % interval of the share", "share of seeds whose sink rate has exceeded 0.3"} <= {
        text.replace("\n", " ") for text in texts
    }


def test_a_difference_is_taken_within_each_record(texts: list[str]) -> None:
    relative = spec("position", lines=["extension"], panels=["arm"], relative_to={"length": 1024}, at={"length": 1024})
    assert figure(relative, STUDY, RECORDS) is not None
    assert "loss by position (nats) minus as trained" in texts


def test_rows_of_bars_may_be_values_of_a_dimension(texts: list[str]) -> None:
    languages = [measured("relative_tokens", value, language=name) for name, value in (("eng", 1.0), ("mya", 14.0))]
    records = [entry("t", tokenizer, 0, *languages) for tokenizer in ("gpt2", "byte")]
    wanted = spec("bars", quantities=["relative_tokens"], dim="language", lines=["arm"])
    assert figure(wanted, study("t"), records) is not None
    assert {"English", "Burmese", "gpt2", "byte", "relative tokens (ratio)"} <= set(texts)


def test_heads_that_share_values_are_marks_of_their_own() -> None:
    first = RECORDS[0]
    halved = {key: array[:, :2] if key.quantity == "value_drain_ratio" else array for key, array in first.arrays().items()}
    assert figure(spec("scatter"), STUDY, [Stored(first.record, first.curve(), halved)]) is not None


def test_seeds_of_one_place_have_an_interval_beside_the_diagonal(texts: list[str]) -> None:
    records = [
        entry("s", f"a_base={base}", seed, measured("reach", base + 0.1 * seed), measured("predicted_reach", float(base)))
        for base in (8, 16)
        for seed in range(3)
    ]
    drawn = scatter({"a": np.array([[8.0, 8.0, 16.0, 16.0], [7.0, 9.0, 10.0, 12.0]])}, Axis("x"), Axis("y"), diagonal=True)
    (bars,) = (bars for bars in drawn.axes[0].collections if isinstance(bars, LineCollection))
    (_, low), (_, high) = bars.get_segments()[0]
    assert (low + high) / 2 == pytest.approx(8.0)
    assert high - low == pytest.approx(2 * 12.7062)  # Student's quantile of one degree of freedom, times a standard error of 1
    figure(spec("scatter", x="predicted_reach", quantities=["reach"], lines=["family"]), study("s"), records)
    assert "equal" in texts


def test_only_arrays_that_a_figure_reads_are_named() -> None:
    described, _ = sinks_study(figures=[spec(kind).model_dump() for kind in ("length", "step", "position", "scatter")])
    assert arrays_read(described) == {"loss_by_position", "position_edges", "first_token_mass", "value_drain_ratio"}
    assert arrays_read(STUDY) == set()


@pytest.mark.parametrize("panels", [1, 3])
def test_twenty_lines_have_a_legend_that_is_not_clipped(panels: int) -> None:
    x = np.arange(1.0, 5.0)
    lines = [Line(f"a rather long label, learning rate 0.0{i:02d}", x, list((x + i)[:, None])) for i in range(20)]
    grid = [Panel(f"{number}", lines, Axis("loss (nats)")) for number in range(panels)]
    with mpl.rc_context(STYLE):
        drawn = line_grid(grid, Axis("step"), 4, sharey=True)
        drawn.draw_without_rendering()
    box = drawn.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= drawn.bbox.width


@pytest.mark.parametrize(
    ("seeds", "places", "spread", "text"),
    [
        (1, 4, "none", ""),
        (3, 4, "points", "single seeds"),
        (3, 40, "range", "range of the seeds"),
        (12, 4, "quartiles", "middle half of the seeds"),
    ],
)
def test_few_seeds_are_points_and_the_legend_says_what_is_shown(seeds: int, places: int, spread: str, text: str) -> None:
    line = Line("softmax", np.arange(places, dtype=float), list(np.arange(places * seeds, dtype=float).reshape(places, seeds)))
    assert line.spread == spread
    with mpl.rc_context(STYLE):
        drawn = line_grid([Panel("a", [line], Axis("loss (nats)")), Panel("b", [line], Axis(""))], Axis("step"), 2, sharey=True)
    labels = [handle.get_text() for handle in drawn.legends[0].get_texts()]
    assert labels == ["softmax", *([text] if text else [])]


def test_each_seed_has_a_line_where_all_have_the_same_places() -> None:
    x, values = np.arange(3.0), [np.array([1.0, 5.0]), np.array([2.0, 4.0]), np.array([3.0, 3.0])]
    assert Line("softmax", x, [*values[:2], values[2][:1]], each_seed=True).spread == "points"
    line = Line("softmax", x, values, each_seed=True)
    with mpl.rc_context(STYLE):
        drawn = line_grid([Panel("a", [line], Axis("loss (nats)"))], Axis("step"), 1, sharey=True)
    assert [np.asarray(of.get_ydata()).tolist() for of in drawn.axes[0].lines] == [[3, 3, 3], [1, 2, 3], [5, 4, 3]]


@pytest.mark.parametrize(("place", "names"), [(4.0, ["a", "b", "predicted", "training length"]), (4.1, ["a", "b"])])
def test_what_lies_beyond_all_points_is_neither_drawn_nor_explained(place: float, names: list[str]) -> None:
    lines = [Line(label, np.array([1.0, 4.0]), [np.array([3.0])] * 2, mark=place) for label in "ab"]
    drawn = line_grid([Panel("", lines, Axis("loss (nats)"), place)], Axis("length"), 1, sharey=True, marks="predicted")
    assert [handle.get_text() for handle in drawn.legends[0].get_texts()] == names
    assert len(drawn.axes[0].lines) == 2 + 3 * (len(names) > 2)


def test_few_places_have_the_ticks_and_a_panel_of_no_kind_is_that_of_all() -> None:
    line = Line("a", np.array([1.0, 2.0, 4.0]), [np.array([3.0])] * 3)
    drawn = line_grid([Panel("", [line], Axis("share")), Panel("left", [line], Axis(""))], Axis("wider"), 2, sharey=True)
    assert list(drawn.axes[0].get_xticks()) == [1.0, 2.0, 4.0]
    assert [axes.get_title() for axes in drawn.axes] == ["all", "left"]


def test_pages_get_shorter_numbers_and_dark_colours_but_the_same_texts() -> None:
    svg = for_pages(b'<svg width="10.123pt"><!-- 1.65 --><g transform="scale(0.125)"><text>1.65</text></g></svg>').decode()
    assert svg.startswith('<svg width="10.1pt"><style>@media (prefers-color-scheme: dark)')
    assert svg.endswith('<g transform="scale(0.125)"><text>1.65</text></g></svg>')


def test_title_and_legend_are_inside_the_canvas_and_apart() -> None:
    x = np.arange(4.0)
    lines = [Line(f"arm {number}", x, list((x + number)[:, None])) for number in range(3)]
    title = "Does a question that needs more than one line of text stay above the legend, and within the canvas?"
    with mpl.rc_context(STYLE):
        figure_of_lines = line_grid([Panel("", lines, Axis("loss (nats)"))], Axis("step"), 1, sharey=True)
        drawing = encode("n", title, "c", figure_of_lines)
    legend, text = figure_of_lines.legends[0].get_window_extent(), figure_of_lines.texts[-1].get_window_extent()
    assert legend.y1 <= text.y0
    assert text.x0 >= 0 and text.x1 <= figure_of_lines.bbox.width
    assert drawing.pdf.startswith(b"%PDF")
    assert 96 * figure_of_lines.get_figheight() < drawing.height < 96 * figure_of_lines.get_figheight() + 60
    assert b"prefers-color-scheme: dark" in drawing.svg


@pytest.mark.parametrize(
    ("value", "text"),
    [(128.0, "128"), (0.0025, "0.0025"), (16384.0, "16k"), (2.0**20, "1M"), (1e6, "10⁶"), (1e4, "10000"), (1.5, "1.5")],
)
def test_ticks(value: float, text: str) -> None:
    assert tick_text(value) == text
