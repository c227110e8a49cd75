"""The pages over the engine: a visit goes where the environment's session goes, and addresses change nothing."""

import re

import pytest

from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.site.shown import LAST_PAGE, build_page
from mage_envs.games.webshop.site.views import LONGEST_QUERY
from mage_envs.web.visits import MOST_ACTIONS, Visits
from tests.games.webshop.site.shops import Visitor

FIND = "alba canvas ballet flats"


def test_a_visit_goes_where_the_engine_goes(visitor, shop):
    visit = visitor().start("train", 0)
    twin = Session(shop, shop.goal_at(int(shop.numbers("train")[0])))
    assert (visit.path, "search_input" in visit.page) == ("/search", True)
    for act in (
        "search[Alba CANVAS ballet flats ]",
        "click[b000000001]",
        "click[description]",
        "click[< prev]",
        "click[features]",
        "click[< prev]",
        "click[reviews]",
        "click[< prev]",
        "click[< prev]",
        "click[next >]",
        "click[< prev]",
        "click[back to search]",
        "search[canvas]",
        "click[b000000001]",
        "click[royal blue]",
        "click[buy now]",
    ):
        assert twin.play(act), act
        name = act.partition("[")[2][:-1]
        if act.startswith("search"):
            visit.search(name)
        elif name == "royal blue":
            visit.click("", option_0=name)
        else:
            visit.click(name)
        page = build_page(twin)
        assert (visit.answer.status_code, visit.path) == (200, page.address), act
        for text in (
            page.instruction,
            *(hit.title for hit in page.products),
            *(page.texts),
            *([page.item.title] if page.item else []),
            *([str(page.score)] if page.score is not None else []),
        ):
            assert re.sub(r"\s+", " ", text) in visit.texts, (act, text)
    assert twin.page == "done"
    assert f"<pre>{twin.score.total}</pre>" in visit.page


def test_tools_find_what_they_know(visitor):
    visit = visitor().start()
    assert visit.page.count('id="instruction-text"') == visit.page.count('id="search_input"') == 1
    assert 'class="btn btn-green">Search</button>' in visit.page
    visit.search("shoes desk tea cream cable")
    for name in ("product-link", "product-title", "product-price"):
        assert visit.page.count(f'class="{name}"') == 10
    assert [text in visit.page for text in ("Back to Search", "Next &gt;", "&lt; Prev")] == [True, True, False]
    visit.search(FIND).click("b000000001")
    assert len(re.findall(r'<input type="radio"[^>]* value="royal blue"', visit.page)) == 1
    assert all(f">{name}</button>" in visit.page for name in ("Description", "Features", "Reviews", "Buy Now"))
    visit.click("buy now")
    assert re.search(r'<div id="reward">.*<pre>[\d.]+</pre>', visit.page)


def test_reading_a_page_changes_nothing_and_other_addresses_lead_to_where_one_is(visitor):
    visit = visitor().start().search(FIND)
    for path in (
        "/search",
        "/results/1",
        "/results/7",
        "/results/x",
        "/item/B000000002",
        "/item/B000000001/features",
        "/done",
    ):
        assert visit.get(path).path == "/results/1"
    assert 'href="/results/1"' in visit.get("/").page
    visit.get("/results/1").click("b000000001")
    assert visit.get("/results/1").path == "/item/B000000001"


def test_without_a_visit_there_is_the_first_page(visitor):
    visit = visitor()
    for path in ("/search", "/results/1", "/item/B000000001", "/done"):
        assert visit.get(path).path == "/"
        assert "That visit has ended" in visit.page
    key = visit.read_hidden_field("form_key")
    for path in ("/search", "/click"):
        assert visit.post(path, {"form_key": key, "search_query": "x", "click": "next >", "step": "0"}).path == "/"
    assert visit.post("/visits", {"form_key": key, "again": "1"}).path == "/"


def test_an_old_form_does_nothing(visitor):
    visit = visitor().start().search("shoes desk tea cream cable")
    key, step = visit.read_hidden_field("form_key"), visit.read_hidden_field("step")
    visit.click("next >")
    assert visit.path == "/results/2"
    visit.post("/click", {"form_key": key, "step": step, "click": "next >"})
    assert visit.path == "/results/2"
    assert "out of date" in visit.page


def test_what_the_page_does_not_offer_is_refused(visitor):
    visit = visitor().start().search(FIND)
    for name in ("b0no0such0", "buy now", "royal blue", "search", "", "x" * 9000, "a]b[", "\x00"):
        visit.click(name)
        assert visit.path == "/results/1"
    assert "nothing of that name" in visit.page
    assert "Type what to look for" in visit.click("back to search").search("   ").page


def test_options_are_chosen_by_any_button_of_the_page(visitor):
    visit = visitor().start().search(FIND).click("b000000001").click("", option_0="red", option_1="7")
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", visit.page) == [("color", "red"), ("size", "7")]
    assert len(re.findall(r'value="(?:red|7)"[^>]* checked', visit.page)) == 2
    visit.click("features", option_0="royal blue", option_1="7")
    assert visit.path == "/item/B000000001/features"
    visit.click("< prev").click("buy now", option_1="no such size")
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", visit.page) == [("color", "royal blue"), ("size", "7")]


def test_an_option_called_like_a_button_cannot_be_pressed_by_mistake(visitor):
    visit = visitor().start().search("gala heels").click("b000000007")
    assert len(re.findall(r'type="radio"[^>]* disabled', visit.page)) == 3
    for value in ("buy now", "description", "search"):
        assert visit.click("", option_0=value).path == "/item/B000000007"
    assert "<dt>style</dt><dd>plain</dd>" in visit.click("", option_0="plain").page
    visit.search("heath slippers").click("b000000008")
    values = re.findall(r'type="radio"[^>]*name="(.*?)" value="(.*?)"[^>]*?( disabled)?>', visit.page)
    assert values == [("option-0", "grey", " disabled"), ("option-1", "grey", ""), ("option-1", "x [2]", "")]
    visit.click("", option_0="grey", option_1="x [2]")
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", visit.page) == [("pattern", "x [2]")]


def test_empty_and_repeated_values(visitor):
    visit = visitor().start().search("iris moccasins").click("b000000009")
    assert re.findall(r'type="radio"[^>]* value="(.*?)"[^>]*?( disabled)?>', visit.page) == [
        ("", " disabled"),
        ("6", ""),
    ]
    assert "nothing here" in visit.click("reviews").page
    assert "nothing here" in visit.click("< prev").click("features").page


def test_goals_are_chosen_by_their_place_or_drawn(visitor, shop):
    visit = visitor()
    visit.get("/goals/train/1")
    listed_goals = re.findall(r'id="goal-(\d+)">([^<]*)<', visit.page)
    assert [position for position, _ in listed_goals] == [str(position) for position in range(len(listed_goals))]
    assert visit.start("train", 3).texts.count(listed_goals[3][1].replace("&#39;", "'")) == 1
    drawn_goals = {re.search(r'class="told">([^<]*)<', visit.start("train", None).page)[1] for _ in range(12)}
    assert len(drawn_goals) > 3
    count = len(shop.numbers("train"))
    key = visit.get("/").read_hidden_field("form_key")
    for form in (
        {"split": "no"},
        {},
        {"split": "train", "goal": str(count)},
        {"split": "train", "goal": "-1"},
        {"split": "train", "goal": "9" * 5000},
        {"split": "train", "goal": "٣"},
    ):
        assert visit.post("/visits", {"form_key": key} | form).answer.status_code == 400
    for path in (
        "/goals/no/1",
        "/goals/train/0",
        "/goals/train/x",
        f"/goals/train/{10**8}",
        f"/goals/train/{'9' * 900}",
    ):
        assert visit.get(path).answer.status_code == 404


def test_the_same_goal_again(visitor):
    visit = visitor().start("train", 2)
    told_text = re.search(r'class="told">[^<]*<', visit.page)[0]
    visit.search(FIND).click("b000000001").click("buy now")
    assert told_text in visit.page
    assert 'href="/done"' in visit.get("/").page
    visit.get("/done").post("/visits", {"form_key": visit.read_hidden_field("form_key"), "again": "1"})
    assert (visit.path, told_text in visit.page) == ("/search", True)


def test_after_the_purchase_nothing_moves(visitor):
    visit = visitor().start().search(FIND).click("b000000001").click("buy now")
    keys = {name: visit.read_hidden_field(name) for name in ("form_key", "step")}
    assert visit.post("/search", keys | {"search_query": "tea"}).path == "/done"
    assert visit.post("/click", keys | {"click": "back to search"}).path == "/done"


def test_limits_of_queries_pages_and_actions(visitor):
    visits = Visits()
    visit = visitor(visits=visits).start()
    assert visit.search("x " * (LONGEST_QUERY // 2)).path == "/results/1"
    visit.get("/results/1")
    assert visit.search("x" * (LONGEST_QUERY + 1)).answer.status_code == 400
    visit.get("/results/1").search("shoes")
    for _ in range(LAST_PAGE - 1):
        visit.click("next >")
    assert (visit.path, "Next" in visit.page) == (f"/results/{LAST_PAGE}", False)
    assert visit.click("next >").path == f"/results/{LAST_PAGE}"
    assert "turns no more pages" in visit.page
    ((stored_visit, _),) = visits._visits.values()
    stored_visit.actions = MOST_ACTIONS
    visit.get("/results/1").click("< prev")
    assert (visit.path, "all the actions" in visit.page) == (f"/results/{LAST_PAGE}", True)


def test_the_page_of_attributes_is_an_option(visitor, shop):
    way = (FIND, "b000000001")
    assert ">Attributes<" not in visitor().start().search(way[0]).click(way[1]).page
    visit = Visitor(shop, shows_attributes=True).start().search(way[0]).click(way[1]).click("attributes")
    assert (visit.path, "arch support" in visit.page) == ("/item/B000000001/attributes", True)


def test_pictures_come_from_elsewhere_only_where_wanted(visitor, hostile_shop):
    plain = visitor().start().search(FIND)
    assert "<img" not in plain.page
    assert "img-src 'self';" in plain.answer.headers["Content-Security-Policy"]
    with_images = visitor(images=True).start().search(FIND)
    assert '<img src="https://example.org/B000000001.jpg" alt=""' in with_images.page
    assert "img-src 'self' https: http: data:;" in with_images.answer.headers["Content-Security-Policy"]
    attacked = Visitor(hostile_shop, images=True).start().search("canvas shoe")
    assert set(re.findall(r'<img src="(.*?)"', attacked.page)) == {
        f"https://example.org/{name}.jpg" for name in ("../../x", "a/b?c#d%2f")
    }


def test_health(visitor):
    visit = visitor().start()
    assert visit.get("/healthz").answer.get_json() == {"status": "ok", "products": 23, "visits": 1}


@pytest.mark.parametrize("path", ["/static/shop.css", "/static/icon.svg"])
def test_the_look_is_served_from_here(visitor, path):
    with visitor().get(path).answer as answer:
        assert answer.status_code == 200
        assert not re.search(r"@import|https?://(?!www\.w3\.org)", answer.get_data(as_text=True))
