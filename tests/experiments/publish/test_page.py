"""The page of a results folder of synthetic records."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from leadline.experiments.publish.page import css_text
from leadline.experiments.publish.report import report
from tests.experiments.publish.page_of_records import HOSTILE, SHOWN, STATEMENT, publish, publish_scales

VOID = ("meta", "br", "input", "hr", "img")


class Elements(HTMLParser):
    """Every element with its attributes; fails where a closing tag closes another element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "results"
    publish(folder)
    return folder


@pytest.fixture(scope="module")
def page(results: Path) -> str:
    return (results / "index.html").read_text(encoding="utf-8")


def test_it_is_well_formed_and_fetches_nothing_but_the_pictures_beside_it(results: Path, page: str) -> None:
    elements = Elements(page)
    assert elements.open == []
    assert not {"link", "iframe", "object"} & {tag for tag, _ in elements.elements}
    assert all("src" not in script for script in elements.of("script"))
    assert not re.search(r"@import|url\(", page)
    assert elements.of("img") and all((results / image["src"]).is_file() and image["alt"] for image in elements.of("img"))
    addresses = [name for _, attributes in elements.elements for name, value in attributes.items() if "://" in value]
    assert set(addresses) == {"href"}


def test_identifiers_are_distinct_and_every_link_leads_somewhere(results: Path, page: str) -> None:
    elements = Elements(page)
    identifiers = [attributes["id"] for _, attributes in elements.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for link in (anchor["href"] for anchor in elements.of("a")):
        if not link.startswith("https://"):
            assert link[1:] in identifiers if link.startswith("#") else (results / link).is_file(), link


def test_a_claim_links_to_its_source_study_figure_and_runs_and_names_its_command(page: str) -> None:
    row = page[page.index('<tr id="claim-sinks-gate-less"') :]
    row = row[: row.index("</tr>")]
    for part in (
        STATEMENT,
        'href="https://arxiv.org/abs/2505.06708">Qiu et al. 2025, section 4<',
        'href="#sinks"',
        'href="#figure-sinks_over_training"',
        'href="#run-sinks-gate"',
        'href="#run-sinks-softmax"',
        "leadline run configs/sinks.toml",
    ):
        assert part in row, part


def test_published_claims_come_first_and_those_not_measured_are_folded(page: str) -> None:
    places = [
        page.index(f'claim-sinks-{name}" data-') for name in ("gate-less", "gate-shorter", "gate-more", "gate-our", "gate-else")
    ]
    assert places == sorted(places)
    assert "<details" not in page[page.index("<div data-claims>") : page.index('<tr id="claim-sinks-gate-less"')]
    assert page[: places[-1]].count('<details class="fold" data-claims>') == 2
    assert page[places[-2] : places[-1]].count('<td data-label="Published">said without a source</td>') == 1


def test_a_statement_at_two_scales_is_one_row_and_says_what_was_not_measured(tmp_path: Path) -> None:
    published = publish_scales(tmp_path)
    page = published.page.read_text(encoding="utf-8")
    table = page[page.index('<table class="sortable cards claims scales">') :]
    first, second = table[: table.index("</table>")].split('<tr data-outcome="')[1:]
    assert first.startswith('holds|fails"') and second.startswith('holds|not measured"')
    for row, parts in (
        (first, (STATEMENT, 'id="claim-sinks-gate-less"', 'id="claim-published-large-gate-less"', "one model, no interval")),
        (second, ("A gate lowers the loss", 'data-label="Small language model"', 'data-label="SmolLM2-135M"')),
    ):
        for part in parts:
            assert part in row, part
    assert page.count('id="claim-sinks-gate-less"') == 1
    assert "The one published claim tested on SmolLM2-135M fails." in page
    assert (tmp_path / "tables" / "scales.md").is_file()


def test_a_run_group_has_its_settings_numbers_curves_records_and_command(page: str) -> None:
    group = page[page.index('id="run-sinks-gate"') :]
    group = group[: group.index("</details>")]
    for part in ("3 seeds", "model.norm = layer", "sink rate (fraction)", "0.300", "only=", "s2/record.json", "2026-01-02"):
        assert part in group, part
    assert len(re.findall("<polyline", group)) % 3 == 0


def test_questions_and_notes_are_shown_and_hostile_names_are_text(results: Path, page: str) -> None:
    for part in (SHOWN["question"], "A note.", "commit 000000000000"):
        assert part in page
    assert HOSTILE not in page
    assert "&lt;img src=x onerror=" in page
    assert r"\&\_\%" in (results / "tables" / "sinks.tex").read_text(encoding="utf-8")


def test_pictures_are_in_the_page_on_request(results: Path, page: str) -> None:
    report(results, inline=True)
    inline = (results / "index.html").read_text(encoding="utf-8")
    (results / "index.html").write_text(page, encoding="utf-8")
    images = Elements(inline).of("img")
    assert len(images) == len(Elements(page).of("img")) > 0
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in images)


@pytest.mark.parametrize(
    ("text", "escaped"), [("a", '"a"'), ('"', '"\\""'), ("\\", '"\\\\"'), ("</style>", '"\\3c /style>"'), ("a\nb", '"a b"')]
)
def test_texts_are_strings_of_css(text: str, escaped: str) -> None:
    assert css_text(text) == escaped
