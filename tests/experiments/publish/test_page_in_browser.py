"""The page in a headless browser, at the width of a desktop and of a telephone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.publish.page_of_records import publish, publish_scales

WIDTHS = (1280, 390)
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(13, 17, 23)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    results = tmp_path_factory.mktemp("browser") / "results"
    publish(results)
    return (results / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'")
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        pytest.skip("no browser: Debian has one in the packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as chrome:
        yield chrome


@pytest.fixture(params=WIDTHS)
def opened(request: pytest.FixtureRequest, browser: Any, page: str) -> Any:
    show(browser, page, request.param)
    return browser


def show(browser: Any, page: str, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 640}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get("about:blank")
    browser.get(page)


def listed(browser: Any, what: str = "outcome") -> list[str]:
    """Of every claim that is shown its outcome, or its statement."""
    value = "row.dataset.outcome" if what == "outcome" else "row.cells[1].firstChild.textContent.trim()"
    rows = "[...document.querySelectorAll('tr[data-outcome]')].filter((row) => row.checkVisibility())"
    return browser.execute_script(f"return {rows}.map((row) => {value})")


def click(browser: Any, selector: str) -> None:
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def assert_nothing_overflows(browser: Any) -> None:
    for script in ("", "document.querySelectorAll('details').forEach((part) => { part.open = true; })"):
        browser.execute_script(script)
        width, shown = browser.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
        assert width <= shown
    assert browser.get_log("browser") == []


def test_nothing_overflows_the_page_even_where_everything_is_open(opened: Any) -> None:
    assert_nothing_overflows(opened)


def test_chips_and_search_filter_the_claims(opened: Any) -> None:
    assert listed(opened) == ["holds", "holds", "fails"]
    click(opened, "#tools button[data-outcome='fails']")
    assert listed(opened) == ["fails"]
    assert opened.find_element("css selector", "#tools [role=status]").text == "1 of 5 claims shown"
    click(opened, "#tools button[data-outcome='not measured']")
    assert listed(opened) == ["not measured"]
    click(opened, "#tools button[data-outcome='']")
    opened.find_element("css selector", "#tools input").send_keys("qiu GATE")
    assert listed(opened, "statement") == ["An output gate lowers the sink rate"]


def test_a_click_on_a_heading_sorts_and_another_one_turns_the_order(opened: Any) -> None:
    heading = "table.claims th:nth-child(2)"
    click(opened, f"{heading} button")
    statements = listed(opened, "statement")
    assert statements == sorted(statements)
    assert opened.find_element("css selector", heading).get_attribute("aria-sort") == "ascending"
    click(opened, f"{heading} button")
    assert listed(opened, "statement") == statements[::-1]


def test_the_keyboard_reaches_everything(opened: Any) -> None:
    parts = "a[href], button, input, summary"
    opened.execute_script(
        "window.wanted = new Set([...document.querySelectorAll(arguments[0])].filter((part) => part.checkVisibility()));"
        "document.addEventListener('focusin', (event) => window.wanted.delete(event.target));",
        parts,
    )
    count = opened.execute_script("return window.wanted.size")
    keys = opened.execute_script("return document.querySelectorAll('[tabindex]').length")
    for _ in range(count + keys + 5):
        opened.switch_to.active_element.send_keys("\ue004")  # Tab
    assert opened.execute_script("return [...window.wanted].map((part) => part.outerHTML)") == []


def test_a_link_to_a_run_opens_what_is_folded(opened: Any) -> None:
    click(opened, "tr[data-outcome] details a[href='#run-sinks-gate']")
    opened.implicitly_wait(2)
    assert opened.find_element("css selector", "#run-sinks-gate[open]").is_displayed()


@pytest.mark.parametrize(("scheme", "colour"), [("light", LIGHT), ("dark", DARK)])
def test_colours_follow_the_scheme(opened: Any, scheme: str, colour: str) -> None:
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    assert opened.execute_script("return getComputedStyle(document.body).backgroundColor") == colour


def test_pictures_are_shown_and_nothing_else_is_fetched(opened: Any, page: str) -> None:
    loaded = """
        const images = [...document.querySelectorAll('img')];
        for (const image of images) image.loading = 'eager';
        return Promise.all(images.map((image) => image.decode().then(() => image.naturalWidth)));
    """
    assert min(opened.execute_script(loaded)) > 100
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    addresses = [
        message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
    ]
    folder = page.removesuffix("index.html")
    assert page in addresses
    assert {address for address in addresses if not address.startswith(f"{folder}figures/")} <= {page, "about:blank"}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_statement_at_two_scales_is_listed_under_each_outcome(browser: Any, tmp_path: Path, width: int) -> None:
    show(browser, publish_scales(tmp_path).page.as_uri(), width)
    several = ["holds|fails", "holds|not measured"]
    assert listed(browser)[:2] == several
    click(browser, "#tools button[data-outcome='fails']")
    assert listed(browser) == [several[0], "fails"]
    assert browser.find_element("css selector", "#tools [role=status]").text == "2 of 5 claims shown"
    click(browser, "#tools button[data-outcome='holds']")
    assert listed(browser)[:2] == several
    assert_nothing_overflows(browser)
