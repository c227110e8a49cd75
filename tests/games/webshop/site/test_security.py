"""What attackers send: markup in texts, forms from elsewhere, forged cookies, odd hosts and paths, floods."""

import gc
import html
import re
import tracemalloc

import pytest

from mage_envs.games.webshop.site.security import HEADERS, LONGEST_BODY, Guard, Tokens, host_names, is_loopback
from mage_envs.games.webshop.site.visits import Visits
from mage_envs.games.webshop.site.watching import Watches
from tests.games.webshop.site.shops import ATTACKS, ROOT, Visitor

FORM = "application/x-www-form-urlencoded"
ALLOWED = {
    "a",
    "article",
    "aside",
    "body",
    "br",
    "button",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "form",
    "g",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "head",
    "header",
    "html",
    "input",
    "label",
    "legend",
    "li",
    "link",
    "main",
    "meta",
    "meter",
    "nav",
    "ol",
    "option",
    "p",
    "path",
    "pre",
    "rect",
    "section",
    "select",
    "span",
    "svg",
    "title",
    "ul",
    "!DOCTYPE",
}


def assert_harmless(page: str) -> None:
    """The page has the site's own tags and attributes only."""
    for tag, attributes in re.findall(r"<(!?[a-zA-Z][\w-]*)((?:[^<>\"]|\"[^\"]*\")*)>", page):
        assert tag in ALLOWED, tag
        names = re.findall(r"([\w-]+)=\"", re.sub(r"(=\")[^\"]*(\")", r"\1\2", attributes))
        assert not [name for name in names if name.startswith("on") or name in ("style", "srcdoc", "formaction")]
    assert "<script" not in page.lower()
    assert str(7777 * 1111) not in page, "a template in a text was filled in"


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
    visit, other = visitor().start(), visitor().start()
    for key in ("", "x", "é", other.hidden("form_key"), visit.hidden("form_key")[:-1]):
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
    form = {"form_key": visit.hidden("form_key"), "search_query": "tea"}
    assert visit.post("/search", form, headers=headers).answer.status_code == status
    assert (visit.get("/search").path == "/results/1") == (status == 200)


def test_reading_never_changes_anything(visitor):
    visit = visitor().start()
    for path in ("/search?search_query=tea", "/click?click=search", "/visits?split=train"):
        assert visit.get(path).path in ("/search", "/click", "/visits")
    assert visit.get("/search").path == "/search"
    assert "Your visit" in visit.get("/").page


def test_cookies_that_were_not_given_out_are_nobodys(visitor):
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
    given = visit.answer.headers["Set-Cookie"]
    assert all(part in given for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
    before = visit.client.get_cookie("webshop", "127.0.0.1").value
    after = visit.start().client.get_cookie("webshop", "127.0.0.1").value
    assert before != after
    assert "webshop" not in visit.get("/search").answer.headers.get("Set-Cookie", "")
    fresh = visitor(cookie="webshop-7").get("/")
    assert fresh.answer.headers["Set-Cookie"].startswith("webshop-7=")


# -- hosts, paths, bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:3001",
        "localhost",
        "127.0.0.1:3000.evil.example",
        "localhost.:3000",
        "",
        "evil.example:3000",
        "127.0.0.1:3000,evil.example",
        "127.0.0.1:3000@evil.example",
        "[::1]",
        "0.0.0.0:3000",
        "0:3000",
        "127.1:3000",
        "127.0.0.1:3000 ",
        "127.0.0.1:03000",
    ],
)
def test_other_hosts_are_refused(visitor, host):
    answer = visitor().get("/", headers={"Host": host}).answer
    assert (answer.status_code, answer.get_data()) == (421, b"This host name is not served here.\n")
    assert_headers(answer)


def test_the_machines_own_names_are_served(visitor):
    for host in ("127.0.0.1:3000", "localhost:3000", "LOCALHOST:3000", "[::1]:3000"):
        assert visitor().get("/", headers={"Host": host}).answer.status_code == 200
    assert host_names(80) >= {"localhost", "localhost:80", "[::1]"}
    assert {"shop.lan:3000", "[fe80::1]:3000"} < host_names(3000, ("Shop.lan", "fe80::1"))
    assert all(is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "", "x.lan", "localhost.x.lan"))


@pytest.mark.parametrize(
    "path",
    [
        "/static/../views.py",
        "/static/%2e%2e/views.py",
        "/static/..%2fviews.py",
        "/static/%2E%2E%2Fviews.py",
        "//evil.example/",
        "/static/..\\views.py",
        "/static/%5c..%5cviews.py",
        "/item/%2f%2fevil.example",
        "/results/%00",
        "/a%2Fb",
        "/./..//x",
        "http://evil.example/",
        "http://127.0.0.1:3000/",
        "*",
        "x",
        "/\t",
    ],
)
def test_odd_paths_are_refused(shop, path):
    answers = []

    def inner(environ, start_response):
        raise AssertionError("the guard let it through")

    environ = {"REQUEST_METHOD": "GET", "HTTP_HOST": "127.0.0.1:3000", "REQUEST_URI": path, "PATH_INFO": path}
    Guard(inner, host_names(3000), False)(environ, lambda status, headers, _: answers.append((status, dict(headers))))
    assert answers[0][0] == "400 Bad Request"
    assert HEADERS.items() <= answers[0][1].items()


def test_the_package_is_not_served(visitor):
    visit = visitor()
    for path in ("/static/", "/static/views.py", "/templates/home.html", "/static/../templates/home.html", "/shop.css"):
        assert visit.get(path).answer.status_code in (400, 404)
        assert "def " not in visit.page


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"data": b"x" * (LONGEST_BODY + 1), "content_type": FORM}, 413),
        ({"data": b"x=y", "content_type": "multipart/form-data; boundary=x"}, 415),
        ({"data": b"{}", "content_type": "application/json"}, 415),
        ({"data": b"x=y", "content_type": "text/plain"}, 415),
        ({"data": b"x=y", "content_type": FORM, "headers": {"Transfer-Encoding": "chunked"}}, 411),
        ({"data": b"x=y", "content_type": FORM, "environ_overrides": {"CONTENT_LENGTH": "-1"}}, 400),
        ({"data": b"x=y", "content_type": FORM, "environ_overrides": {"CONTENT_LENGTH": "9" * 400}}, 413),
        ({"data": b"x=y", "content_type": FORM, "environ_overrides": {"CONTENT_LENGTH": ""}}, 411),
        ({"data": b"&".join([b"a=b"] * 4000), "content_type": FORM}, 403),
        ({"data": b"%ff%fe=%00&search_query=%ed%a0%80", "content_type": FORM}, 403),
    ],
)
def test_bodies(visitor, options, status):
    visit = visitor().start()
    answer = visit.client.post("/search", base_url=ROOT, **options)
    assert answer.status_code == status
    assert_headers(answer)
    assert visit.get("/search").path == "/search"


def test_texts_that_are_no_unicode_are_searched_all_the_same(visitor):
    visit = visitor().start()
    body = f"form_key={visit.hidden('form_key')}&search_query=tea%ff%ed%a0%80%00%0d%0a%5d%5b".encode()
    answer = visit.client.post("/search", base_url=ROOT, data=body, content_type=FORM)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/results/1")
    assert_harmless(visit.get("/results/1").page)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(visitor, method):
    answer = visitor().client.open("/", method=method, base_url=ROOT)
    assert answer.status_code == 405
    assert_headers(answer)


def assert_headers(answer) -> None:
    assert HEADERS.items() <= dict(answer.headers).items()
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert answer.headers["Cache-Control"] in ("no-store", "no-cache")
    assert len(answer.headers.get_all("Content-Security-Policy")) == len(answer.headers.get_all("Server")) == 1


def test_every_answer_has_the_headers(visitor):
    visit = visitor().start()
    for path, status in (
        ("/", 200),
        ("/search", 200),
        ("/static/shop.css", 200),
        ("/healthz", 200),
        ("/no", 404),
        ("/click", 405),
        ("/static/no", 404),
        (f"/{'x' * 3000}", 414),
        ("/goals/train/99", 404),
        ("/results/1", 200),
    ):
        with visit.get(path).answer as answer:
            assert answer.status_code == status, path
            assert_headers(answer)
    assert_headers(visit.client.get("/done", base_url=ROOT))  # a redirection
    assert_headers(visit.client.head("/", base_url=ROOT))


def test_a_failure_tells_nothing(shop, monkeypatch, caplog):
    monkeypatch.setenv("FLASK_DEBUG", "1")
    monkeypatch.setenv("FLASK_ENV", "development")

    class Broken(Watches):
        def find(self, token):
            raise RuntimeError("the secret of the house")

    visit = Visitor(shop, watches=Broken())
    assert visit.app.debug is False
    answer = visit.get("/watch/x").answer
    assert answer.status_code == 500
    assert_headers(answer)
    assert not re.search("secret|Traceback|RuntimeError|werkzeug|debugger", visit.page, re.IGNORECASE)
    assert "the secret of the house" in caplog.text  # for whoever runs it


# -- floods ----------------------------------------------------------------------------------------------------


def test_memory_stays_bounded_in_a_flood_of_visits(shop):
    visits = Visits(most=20)
    visit = Visitor(shop, visits=visits)

    def flood(count):
        for _ in range(count):
            visit.client.delete_cookie("webshop", domain="127.0.0.1")
            visit.start("train", None).search("shoes")
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = flood(30)
        after = flood(60)
    finally:
        tracemalloc.stop()
    assert len(visits) == 20
    assert after - before < 100_000


def test_readers_without_cookies_cost_the_server_nothing(shop):
    visits = Visits()
    visit = Visitor(shop, visits=visits)
    for _ in range(50):
        visit.client.delete_cookie("webshop", domain="127.0.0.1")
        visit.get("/")
    assert len(visits) == 0


# -- what the goal hides ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows_attributes", [False, True])
def test_no_page_tells_what_the_goal_hides(secret_shop, shows_attributes):
    visit = Visitor(secret_shop, shows_attributes=shows_attributes, images=True)
    (split,) = re.findall(r"/goals/(\w+)/1", visit.get("/").page)
    seen = [visit.answer, visit.get(f"/goals/{split}/1").answer, visit.start(split, 0).answer]
    assert "i need a light for the tent" in visit.page
    seen += [visit.search("canvas shoe").answer, visit.click("next >").answer, visit.click("< prev").answer]
    seen += [visit.click("b0plain000").answer, visit.click("", option_0="6").answer]
    for tab in ("description", "features", "reviews", *(["attributes"] if shows_attributes else [])):
        seen += [visit.click(tab).answer, visit.click("< prev").answer]
    seen.append(visit.click("buy now").answer)
    assert (visit.path, "<pre>" in visit.page) == ("/done", True)
    seen += [visit.get("/").answer, visit.get("/healthz").answer, visit.get("/nowhere").answer]
    for answer in seen:
        text = f"{answer.request.path} {answer.headers} {answer.get_data(as_text=True)}".lower()
        assert "secret" not in text
        assert "zebra" not in text


def test_a_random_goal_has_no_name_either(secret_shop):
    visit = Visitor(secret_shop)
    (split,) = re.findall(r"/goals/(\w+)/1", visit.get("/").page)
    assert "secret" not in visit.start(split, None).page.lower()
