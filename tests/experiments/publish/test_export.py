"""Pictures in few bytes."""

import io

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from leadline.experiments.publish.export import with_palette
from leadline.experiments.publish.style import PALETTE


def test_a_colour_of_few_pixels_stays_what_it_is() -> None:
    """A wide band of one colour at every opacity, and a short line of each other one."""
    figure = Figure(figsize=(4, 3), dpi=150)
    axes = figure.subplots()
    axes.imshow(np.linspace(0, 1, 400)[None], cmap="Oranges", aspect="auto", extent=(0, 1, 0, 1))
    for place, colour in enumerate(PALETTE, start=1):
        axes.plot([0.1, 0.14], [place / 10, place / 10], color=colour, linewidth=2, antialiased=False)
    png = io.BytesIO()
    figure.savefig(png, format="png")
    before, after = (
        np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), int) for data in (png.getvalue(), with_palette(png.getvalue()))
    )
    for colour in PALETTE:
        exactly = (before == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=-1)
        assert exactly.any()
        assert np.abs(after[exactly] - before[exactly]).max() <= 4
