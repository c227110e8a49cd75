"""Attacks on the site: markup in texts, forms from elsewhere, forged cookies, odd hosts and paths, floods."""

import gc
import html
import re
import tracemalloc

import pytest

from mage_envs.web.security import Tokens
from mage_envs.web.visits import Visits
from tests.games.webshop.site.shops import ROOT, Visitor
from tests.untrusted.harmless import ATTACKS, assert_harmless

FORM = "application/x-www-form-urlencoded"


# -- scripts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_query_is_text(hostile, attack):
    hostile.start().search(f"canvas {attack}")
    assert_harmless(hostile.page)
    assert html.escape(attack.lower(), quote=False) in hostile.page.replace("&#34;", '"').replace("&#39;", "'")


@pytest.mark.parametrize("number", range(len(ATTACKS)))
def test_a_products_texts_are_text(hostile, number):
    asin, attack = f"b0hostile{number}", ATTACKS[number]
    assert_harmless(hostile.start("train", 0).page)
    assert_harmless(hostile.search("canvas shoe").page)
    assert_harmless(hostile.click(asin).page)
    value = attack.strip().replace("/", " | ").lower()
    hostile.click("", option_0=value)
    assert f"<dd>{value}</dd>" in html.unescape(hostile.page)
    assert_harmless(hostile.page)
    for tab in ("description", "features", "reviews"):
        assert_harmless(hostile.click(tab).page)
        hostile.click("< prev")
    assert_harmless(hostile.click("buy now").page)
    assert hostile.path == "/done"


def test_instructions_are_text(hostile):
    for split in ("train", "val", "test"):
        assert_harmless(hostile.get(f"/goals/{split}/1").page)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_of_a_request_comes_back_in_an_error_or_a_notice(visitor, attack):
    visit = visitor().start()
    for path in (
        f"/{attack}",
        f"/results/{attack}",
        f"/search?notice={attack}",
        f"/watch/{attack}",
        f"/goals/{attack}/1",
    ):
        assert "alert" not in visit.get(path).page
        assert_harmless(visit.page)


def test_asins_that_are_paths_make_no_addresses(hostile):
    hostile.start().search("path for a name")
    assert hostile.click("../../x").path == "/item/-"
    assert hostile.click("description").path == "/item/-/description"
    hostile.search("address for a name")
    assert hostile.click("a/b?c#d%2f").path == "/item/-"
    assert hostile.click("buy now", option_0="blue").path == "/done"


# -- forms and cookies -----------------------------------------------------------------------------------------


def test_forms_need_the_visitors_key(visitor, shop):
    visit, other_visit = visitor().start(), visitor().start()
    for key in ("", "x", "é", other_visit.read_hidden_field("form_key"), visit.read_hidden_field("form_key")[:-1]):
        for path in ("/visits", "/search", "/click"):
            form = {"form_key": key, "search_query": "tea", "click": "search", "step": "0", "split": "train"}
            assert visit.post(path, form).answer.status_code == 403
    assert visit.get("/search").path == "/search"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:3001"}, 403),
        ({"Origin": "https://127.0.0.1:3000"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": ROOT, "Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_forms_from_elsewhere(visitor, headers, status):
    visit = visitor().start()
    form = {"form_key": visit.read_hidden_field("form_key"), "search_query": "tea"}
    assert visit.post("/search", form, headers=headers).answer.status_code == status
    assert (visit.get("/search").path == "/results/1") == (status == 200)


def test_reading_never_changes_anything(visitor):
    visit = visitor().start()
    for path in ("/search?search_query=tea", "/click?click=search", "/visits?split=train"):
        assert visit.get(path).path in ("/search", "/click", "/visits")
    assert visit.get("/search").path == "/search"
    assert "Your visit" in visit.get("/").page


def test_unknown_cookies_open_no_visit(visitor):
    visit = visitor().start().search("tea")
    cookie = visit.client.get_cookie("webshop", "127.0.0.1").value
    token, _, signature = cookie.partition(".")
    assert re.fullmatch(r"[0-9a-f]{32}\.[0-9a-f]{64}", cookie)
    for forged in (
        f"{'0' * 32}.{signature}",
        f"{token}.{'0' * 64}",
        f"{token}.",
        token,
        "",
        f"{token}.{signature}.x",
        f" {token}.{signature}x",
        f"{token.upper()}.{signature}",
        Tokens().cookie(token),
        "é.ü",
        "../../x",
        "x" * 4000,
    ):
        visit.client.set_cookie("webshop", forged, domain="127.0.0.1")
        assert visit.get("/results/1").path == "/", forged
        visit.client.set_cookie("webshop", cookie, domain="127.0.0.1")
        assert visit.get("/results/1").path == "/results/1"


def test_cookies_are_strict_and_change_with_the_visit(visitor):
    visit = visitor().get("/")
    cookie = visit.answer.headers["Set-Cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
    first_cookie = visit.client.get_cookie("webshop", "127.0.0.1").value
    second_cookie = visit.start().client.get_cookie("webshop", "127.0.0.1").value
    assert first_cookie != second_cookie
    assert "webshop" not in visit.get("/search").answer.headers.get("Set-Cookie", "")
    fresh = visitor(cookie="webshop-7").get("/")
    assert fresh.answer.headers["Set-Cookie"].startswith("webshop-7=")


# -- floods ----------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_memory_stays_bounded_in_a_flood_of_visits(shop):
    visits = Visits(limit=20)
    visit = Visitor(shop, visits=visits)

    def flood(count):
        for _ in range(count):
            visit.client.delete_cookie("webshop", domain="127.0.0.1")
            visit.start("train", None).search("shoes")
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        small_memory = flood(30)
        large_memory = flood(60)
    finally:
        tracemalloc.stop()
    assert len(visits) == 20
    assert large_memory - small_memory < 100_000


def test_readers_without_cookies_cost_the_server_nothing(shop):
    visits = Visits()
    visit = Visitor(shop, visits=visits)
    for _ in range(50):
        visit.client.delete_cookie("webshop", domain="127.0.0.1")
        visit.get("/")
    assert len(visits) == 0


# -- hidden parts of the goal -------------------------------------------------------------------------------


@pytest.mark.parametrize("shows_attributes", [False, True])
def test_no_page_shows_the_hidden_parts_of_the_goal(secret_shop, shows_attributes):
    visit = Visitor(secret_shop, shows_attributes=shows_attributes, images=True)
    (split,) = re.findall(r"/goals/(\w+)/1", visit.get("/").page)
    answers = [visit.answer, visit.get(f"/goals/{split}/1").answer, visit.start(split, 0).answer]
    assert "i need a light for the tent" in visit.page
    answers += [visit.search("canvas shoe").answer, visit.click("next >").answer, visit.click("< prev").answer]
    answers += [visit.click("b0plain000").answer, visit.click("", option_0="6").answer]
    for tab in ("description", "features", "reviews", *(["attributes"] if shows_attributes else [])):
        answers += [visit.click(tab).answer, visit.click("< prev").answer]
    answers.append(visit.click("buy now").answer)
    assert (visit.path, "<pre>" in visit.page) == ("/done", True)
    answers += [visit.get("/").answer, visit.get("/healthz").answer, visit.get("/nowhere").answer]
    for answer in answers:
        text = f"{answer.request.path} {answer.headers} {answer.get_data(as_text=True)}".lower()
        assert "secret" not in text
        assert "zebra" not in text


def test_a_random_goal_has_no_name_either(secret_shop):
    visit = Visitor(secret_shop)
    (split,) = re.findall(r"/goals/(\w+)/1", visit.get("/").page)
    assert "secret" not in visit.start(split, None).page.lower()
