"""The site in a real Chromium without a window: by mouse, by keyboard, on a narrow screen, attacked, and watched."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from selenium.webdriver import ActionChains

from dev.speed.chromium import open_chromium
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site import Site
from tests.browser import NO_NETWORK, Person, needs_browser, overflow
from tests.untrusted.harmless import ATTACKS

pytestmark = needs_browser


@pytest.fixture(scope="module")
def chromium():
    with open_chromium(NO_NETWORK) as driver:
        yield driver


class Shopper(Person):
    """A person in the shop."""

    def start(self, split, position):
        self.go(f"/goals/{split}/{position // 10 + 1}")
        self.press(f".start-goal[value='{position}']")


@pytest.fixture(scope="module")
def site(shop):
    with Site(shop) as opened:
        yield opened


@pytest.fixture
def person(chromium, site):
    chromium.delete_all_cookies()
    for log in ("browser", "performance"):
        chromium.get_log(log)
    yield Shopper(chromium, site)
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(scope="module")
def goal_position(shop):
    """(split, place) of the goal that wants the blue flats in size 6."""
    splits = shop.catalogue.about["goals"]["synthetic"]
    goals = {goal.id: (split, at) for split in splits if splits[split] for at, goal in enumerate(shop.goals(split))}
    return goals["B000000001-s0"]


def test_a_purchase_by_mouse(person, goal_position):
    person.go("/")
    person.press(f".goals-link[href*='/{goal_position[0]}/']")
    person.press(f".start-goal[value='{goal_position[1]}']")
    instruction = person.one("#instruction-text").text
    assert "color: royal blue, and size: 6" in instruction
    person.type("canvas ballet flats")
    person.press("form.search .btn")
    assert [link.text for link in person.all(".product-link")][:1] == ["B000000001"]
    with person.next_page():
        ActionChains(person.driver).click(person.one("#title-1")).perform()  # anywhere on the row
    assert person.path == "/item/B000000001"
    for label in person.all(".axis label"):
        if label.text in ("royal blue", "6"):
            label.click()
    person.press("button[value=description]")
    assert "machine washable" in person.one(".product-info").text
    person.press("button[value='< prev']")
    assert [chip.get_attribute("value") for chip in person.all("input[type=radio]:checked")] == ["royal blue", "6"]
    assert person.one(".product-price").text == "Price: $24.5"
    person.press("button[value='buy now']")
    assert (person.path, person.one("#reward pre").text) == ("/done", "1.0")
    assert person.one("#instruction-text").text == instruction
    requests = [json.loads(entry["message"])["message"] for entry in person.driver.get_log("performance")]
    addresses = {
        event["params"]["request"]["url"] for event in requests if event["method"] == "Network.requestWillBeSent"
    }
    assert addresses
    assert all(address.startswith(person.site.url) for address in addresses)
    assert person.driver.get_log("browser") == []


def test_a_purchase_by_keyboard(person, goal_position):
    person.go(f"/goals/{goal_position[0]}/1")
    person.tab_to(f".start-goal[value='{goal_position[1]}']")
    person.enter()
    person.enter("canvas ballet flats")  # the field has the focus
    person.tab_to(".product-link")
    assert person.run(
        "return getComputedStyle(document.activeElement.closest('article')).outlineStyle + "
        "getComputedStyle(document.querySelector('article:last-of-type')).outlineStyle"
    ) in ("solidnone", "solidsolid")
    person.enter()
    assert person.path == "/item/B000000001"
    person.tab_to("input[type=radio]")
    person.type(" ")
    person.tab_to("input[name=option-1]")
    person.type("\ue014")  # right: from the first to the second
    assert person.run("return document.activeElement.value") == "7"
    assert person.run("return getComputedStyle(document.activeElement.nextElementSibling).outlineStyle") == "solid"
    person.type("\ue012")
    person.enter()  # Enter chooses, and buys nothing
    assert person.path == "/item/B000000001"
    assert [part.text for part in person.all(".chosen dd")] == ["royal blue", "6"]
    person.tab_to("button[value='buy now']")
    person.enter()
    assert (person.path, person.one("#reward pre").text) == ("/done", "1.0")


def test_narrow_screens_scroll_one_way_only(person, hostile_shop):
    size = {"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": False}
    person.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    with Site(hostile_shop) as site:
        narrow = Shopper(person.driver, site)
        narrow.go("/")
        overflows = {narrow.path: overflow(narrow)}
        narrow.start("train", 0)
        overflows[narrow.path] = overflow(narrow)
        narrow.enter(f"canvas shoe {'w' * 300}")
        overflows[narrow.path] = overflow(narrow)
        narrow.press(".product-link")
        overflows["item"] = overflow(narrow)
        narrow.press("button[value=features]")
        overflows["features"] = overflow(narrow)
        narrow.press("button[value='< prev']")
        narrow.press("button[value='buy now']")
        overflows[narrow.path] = overflow(narrow)
        narrow.go("/nowhere")
        overflows[narrow.path] = overflow(narrow)
    assert overflows == dict.fromkeys(("/", "/search", "/results/1", "item", "features", "/done", "/nowhere"), 0)


def test_no_text_runs_a_script(person, hostile_shop):
    with Site(hostile_shop, images=True) as site:
        victim = Shopper(person.driver, site)
        victim.start("train", 0)
        victim.run("document.querySelector('#search_input').value = arguments[0]", f"canvas shoe {''.join(ATTACKS)}")
        victim.press("form.search .btn")
        asins = [link.text for link in victim.all(".product-link") if link.text.startswith("B0HOSTILE")]
        assert len(asins) == len(ATTACKS)
        for asin in asins[:3]:
            victim.press(f".product-link[value='{asin.lower()}']")
            victim.choose(".axis label")
            victim.press("button[value=features]")
            assert "alert(1)" in victim.one("main").text
            assert victim.run("return document.scripts.length") == 0
            victim.press("button[value='< prev']")
            victim.press("button[value='< prev']")
        victim.go("/results/1?notice=<script>alert(1)</script>")
        assert victim.run(
            "const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
            "document.body.append(script); document.body.setAttribute('onclick', 'window.ran = 2');"
            "document.body.click(); return window.ran === undefined"
        ), "the content policy lets scripts of the page run"
    # An alert would have made each later command fail.


def test_another_site_can_neither_send_forms_nor_frame(person, goal_position):
    person.start(*goal_position)
    page = f"""<form id=f method=post action="{person.site.url}/search" target=_self>
    <input name=search_query value=tea><input name=form_key value=x></form>
    <iframe src="{person.site.url}/search"></iframe>"""

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Evil) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        person.driver.get(f"http://127.0.0.1:{evil.server_port}/")
        assert any("frame-ancestors" in entry["message"] for entry in person.driver.get_log("browser"))
        with person.next_page():
            person.run("document.getElementById('f').submit()")
        assert "own pages only" in person.one("body").text
        evil.shutdown()
    person.go("/results/1")
    assert person.path == "/search"


def test_a_name_that_leads_here_by_another_ones_dns_is_not_served(person):
    person.driver.get(f"http://evil.example:{person.site.port}/")
    assert person.one("body").text == "This host name is not served here."


def test_the_back_button_leads_to_where_the_visit_is(person, goal_position):
    person.start(*goal_position)
    person.enter("canvas ballet flats")
    person.press(".product-link")
    with person.next_page():
        person.driver.back()
    assert person.path == "/item/B000000001"


@pytest.mark.more
def test_an_agent_is_watched_without_a_key_being_pressed(person, data):
    state = WebShop("train", data=data).task_state("B000000001-s0", np.random.default_rng(0))
    watch = person.site.watch("somebody")
    watch.show(state.session)
    person.driver.get(watch.url)

    def shows(text):
        person.wait_for("return document.body.innerText.includes(arguments[0])", text)

    shows("Episode 1, step 0")
    for number, action in enumerate(("search[canvas ballet flats]", "click[b000000001]", "click[buy now]"), start=1):
        state = state.after(action)
        watch.show(state.session, action)
        shows(f"Episode 1, step {number}")
        shows(action)
    person.press("#pause")
    assert "Paused" in person.one("header").text
    assert person.one("#reward pre").text == str(state.returns[0])
