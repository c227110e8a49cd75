"""The arena in a real Chromium without a window: by mouse, by keyboard, at 400 pixels, light and dark, attacked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from dev.speed.chromium import open_chromium
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.play.arena import create_app
from mage_envs.benchmarks.play.watched import WatchedAgent
from mage_envs.web.server import LocalSite
from tests.benchmarks.play.arena_visitor import GAMES, watch_agent
from tests.browser import NO_NETWORK, Person, needs_browser, overflow
from tests.untrusted.harmless import ATTACKS

pytestmark = needs_browser

CONTRAST = """
const light = (colour) => {
  const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3)
    .map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  const colour = getComputedStyle(node).backgroundColor;
  return colour === 'rgba(0, 0, 0, 0)' && node.parentElement ? ground(node.parentElement) : colour;
};
return [...document.querySelectorAll('h1, h2, p, li, pre, a, button, th, td, label, summary, .where, .faint')]
  .map((node) => [light(getComputedStyle(node).color), light(ground(node))])
  .map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05))
  .reduce((a, b) => Math.min(a, b));
"""
"""Lowest contrast of the texts of a page, as WCAG 2 computes it."""


@pytest.fixture(scope="module")
def chromium():
    with open_chromium(NO_NETWORK) as driver:
        yield driver


def arena(agent: WatchedAgent) -> LocalSite:
    app = partial(create_app, rng=np.random.default_rng(0), games=lambda: GAMES, watched=agent)
    return LocalSite(lambda hosts, port: app(hosts, f"arena-{port}"), title="The arena", extra="arena")


@pytest.fixture
def person(chromium) -> Iterator[Person]:
    chromium.delete_all_cookies()
    for log in ("browser", "performance"):
        chromium.get_log(log)
    with arena(watch_agent(make_agent("policy:kuhn/nash"))) as site:
        yield Person(chromium, site)
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def to_the_end(person: Person, note: str = "") -> None:
    while not person.all("#again"):
        if person.all("#note"):
            person.type(note)
            person.press("#go-on")
        else:
            person.press(".choices button:enabled")


def test_a_meta_episode_by_mouse(person: Person) -> None:
    person.go("/")
    person.press(".games a[href$=KuhnPoker]")
    person.press("#start")
    assert person.one("h1").text == "Episode 1 of 3, hand 1 of 3"
    to_the_end(person, "a note")
    assert person.one("#opponent").text.startswith("kuhn/")
    assert person.one("#remarks").text.endswith("It is printed from 20 on.")
    assert [head.text for head in person.all("tbody th")] == [
        "you",
        "luck-adjusted",
        "no memory",
        "best learner",
        "knows the opponent",
    ]
    requests = [json.loads(entry["message"])["message"] for entry in person.driver.get_log("performance")]
    addresses = {
        event["params"]["request"]["url"] for event in requests if event["method"] == "Network.requestWillBeSent"
    }
    assert addresses
    assert all(address.startswith(person.site.url) for address in addresses)
    assert person.driver.get_log("browser") == []


def test_a_meta_episode_by_keyboard_alone(person: Person) -> None:
    person.go("/")
    person.tab_to(".games a[href$=KuhnPoker]")
    assert person.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    person.enter()
    person.enter()  # the button has the focus
    while not person.all("#again"):
        if person.all("#note"):
            person.wait_for("return document.activeElement.id === 'note'")
            person.type("it bets")
            person.tab_to("#go-on")
            person.enter()
            assert "it bets" in person.one(".notes").text
        else:
            person.wait_for("return document.activeElement.id === 'answer'")
            person.enter("1")
    person.enter()  # play again
    assert person.one("h1").text == "Episode 1 of 3, hand 1 of 3"


def test_a_board_by_mouse_and_by_keyboard(person: Person) -> None:
    person.go("/games/TicTacToe")
    person.press("#start")
    boxes = [button.rect for button in person.all(".board button")]
    assert len({box["x"] for box in boxes}) == len({box["y"] for box in boxes}) == 3
    free = [button.get_attribute("value") for button in person.all(".board button:enabled")]
    person.press(f".board button[value='{free[0]}']")
    assert not person.one(f".board button[value='{free[0]}']").is_enabled()
    assert "The opponent played (" in person.one("#now").text
    free = [button.get_attribute("value") for button in person.all(".board button:enabled")]
    person.enter(free[-1].strip("()"))
    assert "not a legal action" not in person.one("main").text
    assert not person.all(f".board button:enabled[value='{free[-1]}']")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_in_light_and_dark(person: Person, scheme: str) -> None:
    size = {"width": 400, "height": 750, "deviceScaleFactor": 1, "mobile": False}
    person.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    person.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    results = {}

    def look(name: str) -> None:
        results[name] = (overflow(person), person.run(CONTRAST) >= 4.5)

    person.go("/")
    look("home")
    red = person.run("return parseInt(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0])")
    assert (red < 60) == (scheme == "dark")
    person.go("/games/TicTacToe")
    look("game")
    person.press("#start")
    look("board")
    person.go("/games/KuhnPoker")
    person.press("#start")
    look("play")
    while not person.all("#note"):
        person.press(".choices button:enabled")
    look("note")
    to_the_end(person, "w" * 300)
    look("end")
    person.go("/watch")
    person.press("button[value=next]")
    look("answer")
    person.press("button[value=end]")
    look("watched")
    person.go("/nowhere")
    look("refused")
    assert results == dict.fromkeys(results, (0, True))
    assert len(results) == 9


@pytest.mark.more
def test_no_text_runs_a_script(person: Person) -> None:
    text = " ".join(ATTACKS)
    with arena(watch_agent(text)) as site:
        victim = Person(person.driver, site)
        victim.go("/games/KuhnPoker")
        victim.press("#start")
        victim.enter(text)
        assert "not a legal action" in victim.one("main").text
        while not victim.all("#note"):
            victim.press(".choices button:enabled")
        victim.type(text)
        victim.press("#go-on")
        assert "alert(1)" in victim.one(".notes").text
        victim.go("/play?notice=<script>alert(1)</script>")
        victim.go("/watch")
        victim.press("button[value=end]")
        assert victim.one(".answer").text.count("alert(1)") >= len(ATTACKS) - 1
        assert victim.run("return document.scripts.length") == 0
        assert victim.run(
            "const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
            "document.body.append(script); document.body.setAttribute('onclick', 'window.ran = 2');"
            "document.body.click(); return window.ran === undefined"
        ), "the content policy lets scripts of the page run"
    # An alert would have made each later command fail.
