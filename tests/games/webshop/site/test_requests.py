"""Requests that no browser of ours sends: other hosts, odd paths, large bodies, other methods."""

import re

import pytest

from mage_envs.games.webshop.site.watching import Watches
from mage_envs.web.security import HEADERS, LONGEST_BODY, Guard, host_names, is_loopback
from tests.games.webshop.site.shops import ROOT, Visitor
from tests.untrusted.harmless import assert_harmless

FORM = "application/x-www-form-urlencoded"


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


def test_texts_with_invalid_unicode_are_searched(visitor):
    visit = visitor().start()
    body = f"form_key={visit.read_hidden_field('form_key')}&search_query=tea%ff%ed%a0%80%00%0d%0a%5d%5b".encode()
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
    assert len(answer.headers.get_all("Content-Security-Policy")) == 1


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


def test_a_failure_reveals_nothing(shop, monkeypatch, caplog):
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
    assert "the secret of the house" in caplog.text  # for the operator
