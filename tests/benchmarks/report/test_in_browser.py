"""A report in a real Chromium, from its file: clicked through, by keys, by links, searched, attacked."""

from __future__ import annotations

import json

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

from dev.speed import report as speed
from dev.speed.chromium import open_chromium
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from tests.browser import NO_NETWORK, needs_browser

pytestmark = needs_browser
INVISIBLE = "U+202E", "U+001B", "U+0000", "U+D800"


class Reader:
    """A reader of the report."""

    def __init__(self, driver, path):
        self.driver, self.url = driver, path.as_uri()

    def open(self, link=""):
        self.driver.get("about:blank")
        self.driver.get(self.url + link)
        self.wait_for("document.readyState === 'complete'")  # under load `get` can return before

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, script, *arguments):
        wait = WebDriverWait(self.driver, 20, 0.02, [WebDriverException])
        return wait.until(lambda driver: driver.execute_script(f"return {script}", *arguments))

    def press(self, keys):
        self.one("body").send_keys(keys)

    def title(self):
        return self.run("return document.querySelector('#transcript h3')?.textContent ?? ''")

    def wait_for_title(self, start):
        self.wait_for("document.querySelector('#transcript h3')?.textContent.startsWith(arguments[0])", start)

    def log(self):
        """Lines of the console, and addresses asked for, since the last time."""
        console = [entry["message"] for entry in self.driver.get_log("browser")]
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        addresses = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return console, [address.split("#")[0] for address in addresses]


@pytest.fixture(scope="module")
def chromium():
    with open_chromium(NO_NETWORK) as driver:
        yield driver


@pytest.fixture
def reader(chromium, runs, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "read.html"
    if not path.exists():
        assert main(["report", str(runs / "random"), str(runs / "last"), str(runs / "attack"), "--out", str(path)]) == 0
    opened = Reader(chromium, path)
    opened.log()
    yield opened
    console, addresses = opened.log()
    assert console == []
    assert {address for address in addresses if address != "about:blank"} <= {opened.url}


def test_clicked_through(reader, runs):
    reader.open()
    assert "32 of 32 meta-episodes" in reader.one("#status").text
    reader.one(".curves input[value=pass]").click()
    assert reader.one(".curves .view.pass").is_displayed()
    assert not reader.one(".curves .view.headline").is_displayed()
    reader.one(".curves input[data-switch='0']").click()
    assert not reader.one(".curves .view.pass [data-series='0']").is_displayed()
    reader.one("#theme").click()
    reader.one("#theme").click()
    assert reader.run("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 28)"
    link = reader.one("#learned a")
    title = link.text
    link.click()
    reader.wait_for_title(title)
    reader.one("#list [role=option]").click()
    reader.wait_for_title("run/0 ")
    line = Records(runs / "random").lines[0]
    assert len(reader.all("#transcript .call")) == len(line["calls"])
    prompt = reader.one("#transcript .call.play details.prompt")
    prompt.find_element("css selector", "summary").click()
    first_call = next(call for call in line["calls"] if call["phase"] == "play")
    reader.wait_for("arguments[0].querySelector('pre')", prompt)
    prompt_text = reader.run("return arguments[0].querySelector('pre').textContent", prompt)
    assert prompt_text.rstrip("\n") == first_call["messages"][0]["content"].rstrip("\n")
    reader.one("#copy").click()
    reader.wait_for("document.querySelector('#copy').textContent === 'Copied'")


def test_a_point_has_its_curves_colour_and_shows_its_interval(reader):
    reader.open()
    curves = "[...document.querySelectorAll('svg.chart .series')]"
    fill, colour = (f"getComputedStyle(one{part})" for part in (".querySelector('use')", ""))
    assert reader.run(f"return {curves}.length") > 10
    assert reader.run(f"return {curves}.every((one) => {fill}.fill === {colour}.color)")
    reader.run("document.querySelector('#curves').scrollIntoView()")
    point = reader.one(".curves .view.headline .point use")
    ActionChains(reader.driver).move_to_element(point).perform()
    reader.wait_for("/, episode 1: -?\\d.*, n = /.test(document.querySelector('#hint').textContent)")


def test_keys_and_links(reader):
    reader.open("#run/3/e2/t1")
    reader.wait_for_title("run/3 ")
    reader.wait_for("document.querySelector('.here')?.dataset.at === 'e2/t1'")
    script = (
        "const [a, b] = ['.here', '#transcript'].map((one) => document.querySelector(one).getBoundingClientRect());"
    )
    assert reader.run(script + "return a.top >= b.top && a.bottom <= b.bottom")
    reader.press("j")
    reader.wait_for_title("run/4 ")
    reader.press("k")
    reader.wait_for_title("run/3 ")
    reader.press("]")
    reader.wait_for("location.hash === '#run/3/e1'")
    reader.press("n")
    reader.wait_for("location.hash === '#run/3/e1/t1'")
    reader.press("b")
    reader.wait_for("document.querySelectorAll('#transcript h3').length === 2")
    assert reader.run("return location.hash") == "#run/3/beside/run2"
    reader.open("#run2/5/e1/beside/run")
    reader.wait_for("document.querySelectorAll('#transcript h3').length === 2")
    assert [heading.text.split(" ")[0] for heading in reader.all("#transcript h3")] == ["run2/5", "run/5"]
    reader.press("?")
    assert reader.one("#help").is_displayed()
    reader.one("#help button").click()
    reader.one("#list").send_keys("\ue015")
    reader.wait_for_title("run2/6 ")
    assert reader.run("return document.querySelector('[aria-selected=true]').id").startswith("row")


def test_filters_and_search(reader, runs):
    reader.open()
    lines = [line for name in ("random", "last") for line in Records(runs / name).lines.values()]
    won = sum(line["episodes"][0]["success"] for line in lines)
    reader.one("[name=outcomes]").send_keys("w")
    won += sum(e["success"] for line in Records(runs / "attack").lines.values() for e in line["episodes"][:1])
    assert reader.one("#status").text.startswith(f"{won} of 32")
    reader.one("[name=outcomes]").clear()
    reader.one("[name=run] option[value=run2]").click()
    assert reader.one("#status").text.startswith("12 of 32")
    reader.one("#filters button[type=reset]").click()
    reader.wait_for("document.querySelector('#status').textContent.startsWith('32')")
    names = ("random", "last", "attack")
    all_calls = [line["calls"] for name in names for line in Records(runs / name).lines.values()]
    texts = list(map(json.dumps, all_calls))
    words = {call["observation"] for calls in all_calls for call in calls if call["phase"] == "play"}
    counts = {word: sum(word in text for text in texts) for word in words}
    word, num_matches = min(counts.items(), key=lambda item: (item[1], item[0]))
    assert 0 < num_matches < 32
    reader.one("[name=query]").send_keys(word.lower())
    reader.wait_for("document.querySelector('#status').textContent.startsWith(arguments[0])", f"{num_matches} of 32")
    reader.all("#list [role=option]")[0].click()
    reader.wait_for("document.querySelector('#transcript mark')")
    assert {mark.text for mark in reader.all("#transcript mark") if mark.is_displayed()} <= {word, ""}


def test_no_attack_runs(reader, runs):
    """Open each transcript with everything unfolded. The page shows an invisible character by its number."""
    reader.open()
    scripts = reader.run("return document.scripts.length")
    page_text = ""
    for index in sorted(Records(runs / "attack").lines):
        reader.run("location.hash = arguments[0]", f"#run3/{index}")
        reader.wait_for_title(f"run3/{index} ")
        reader.run("for (const one of document.querySelectorAll('#transcript details')) one.open = true")
        reader.wait_for("[...document.querySelectorAll('#transcript details')].every((one) => one.children.length > 1)")
        page_text += reader.run("return document.querySelector('#transcript').textContent")
    assert "<script>window.ran=(window.ran||0)+1</script>" in page_text
    assert all(invisible_text in page_text for invisible_text in INVISIBLE)
    assert not set(page_text) & {"\x1b", "\0", "\u202e", "\ud800"}
    assert "all 1,000,0" in page_text
    assert reader.run("return window.ran ?? null") is None
    assert reader.run("return document.scripts.length") == scripts
    assert (
        reader.run("return document.querySelectorAll('#transcript img, #transcript svg, #transcript script').length")
        == 0
    )
    assert reader.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_narrow_screen_shows_the_numbers_and_is_not_wider(reader):
    screen = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    reader.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        reader.open("#run/0/e1/t1/beside/run2")
        reader.wait_for_title("run/0")
        assert reader.run("return document.documentElement.scrollWidth <= innerWidth")
        assert reader.run(
            "const box = document.querySelector('#transcript'); return box.scrollWidth <= box.clientWidth"
        )
        cells = "[...document.querySelectorAll('.results tbody th, .runs td:nth-child(2)')]"
        names = reader.run(f"return {cells}.map((one) => one.offsetWidth)")
        assert names
        assert max(names) < 240
        assert min(names) > 100
        links = "[...document.querySelectorAll('nav a')].filter((one) => one.offsetParent)"
        assert len(reader.run(f"return {links}.map((one) => one.hash)")) > 4
        assert reader.run(f"return {links}.every((one) => one.getBoundingClientRect().right <= innerWidth)")
        head = "document.querySelector('header:has(nav)').offsetHeight"
        assert reader.run(f"return {head} <= parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop)")
    finally:
        reader.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.more
def test_the_reports_speed_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(speed, "VIEWS", 1)
    monkeypatch.setattr(speed, "TRANSCRIPTS", 3)
    assert speed.main(["--panel", "webshop-val-16"]) == 0
    figures = {line[:34].strip(): float(line[34:].split()[0]) for line in capsys.readouterr().out.splitlines()[-5:]}
    assert list(figures)[1:] == [
        "file",
        "first contentful paint",
        "a transcript, median of 3",
        "memory of the page at most",
    ]
    assert min(figures.values()) > 0
