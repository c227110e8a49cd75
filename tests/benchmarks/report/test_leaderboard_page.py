"""`mage leaderboard --page`: runs of several settings on one page without scripts, whose texts execute nothing."""

from __future__ import annotations

import json
from html import unescape
from html.parser import HTMLParser

import pytest

from dev.speed.chromium import open_chromium
from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.record_store import Writer
from mage_envs.cli.program import main
from mage_envs.text.generation import Completion
from tests.benchmarks.report.conftest import ATTACKS, RAN
from tests.browser import NO_NETWORK, needs_browser

ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "ul", "li", "section", "div", "table"),
    *("thead", "tbody", "tr", "th", "td", "code", "details", "summary", "span"),
}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "scope", "title", "data-label"}
SHORT = [text for text in ATTACKS if len(text) < 1000 and "\ud800" not in text]


class Bets:
    def generate(self, prompts):
        return [Completion("<action>bet</action><remark>x</remark>") for _ in prompts]


class Elements(HTMLParser):
    """The names of all elements and attributes, and the text of the cells."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.attributes = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of runs whose agents and settings are named by attacks, in two settings."""
    folder = tmp_path_factory.mktemp("board")
    common = {
        "env_id": "mage/KuhnPoker-Meta-v0",
        "about": "",
        "size": 0,
        "opponents": {"kuhn/rock": 1.0},
        "seats": (0,),
    }
    for number, text in enumerate(SHORT):
        panel = Panel(seed=number % 2, rows_per_cell=2, **common)
        agent, setting = GeneratorAgent(Bets(), text), Setting(panel, text, {"num_episodes": 2, "memory": "none"})
        writer = Writer(folder / "runs" / f"a{number}", about_run(agent, setting), resume=False)
        evaluate(agent, setting.tasks, setting.options, on_finished=writer.add)
        writer.close()
    assert main(["compare", str(folder / "runs"), "--page", str(folder / "board.html")]) == 0
    return folder / "board.html"


def test_no_text_becomes_an_element(page):
    text = page.read_text("utf-8")
    elements = Elements(text)
    assert elements.elements <= ELEMENTS
    assert elements.attributes <= ATTRIBUTES
    assert "<script" not in text.lower()
    assert "default-src 'none'; style-src 'sha256-" in unescape(text)
    assert text.count("<section>") == 2, "one table per setting"
    assert text.count("digests, 2 replayed") == len(SHORT)
    # They are shown: escaping must not drop them.
    assert text.count(RAN) >= 2 * sum(RAN in short_text for short_text in SHORT)


@needs_browser
def test_nothing_runs_in_a_browser(page):
    with open_chromium(NO_NETWORK) as driver:
        driver.get(page.as_uri())
        assert driver.execute_script("return window.ran ?? null") is None
        assert len(driver.find_elements("css selector", "tbody tr")) == len(SHORT)
        assert [entry["message"] for entry in driver.get_log("browser")] == []
        messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        requests = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        assert set(requests) == {page.as_uri()}
