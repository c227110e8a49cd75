"""The server itself: real sockets, the command line, and what is said when flask is missing."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mage_envs.games.webshop.site import Site, create_app
from mage_envs.games.webshop.site.security import HEADERS, LONGEST_BODY
from mage_envs.games.webshop.site.server import MOST_CONNECTIONS

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def site(shop):
    with Site(shop) as opened:
        yield opened


def ask(site, text: str) -> str:
    """Sends bytes as they stand; the whole answer."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as connection:
        connection.sendall(text.replace("PORT", str(site.port)).encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b"")).decode("latin-1")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 200),
        ("HEAD / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 200),
        ("GET /no HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 404),
        ("GET / HTTP/1.1\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n", 421),
        ("GET / HTTP/1.0\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nHost: evil.example\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1:PORT\r\n\r\n", 421),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 400),
        ("GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET //evil.example/.. HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 400),
        ("GET /static/..%2f..%2fviews.py HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 400),
        ("GET /static/../../views.py HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 400),
        ("GET evil HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 400),
        ("CONNECT x:1 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 405),
        (f"GET /{'x' * 70_000} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 414),
        (f"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: {'x' * 70_000}\r\n\r\n", 431),
        ("<script>alert(1)</script>\r\n\r\n", 400),
        ("<script> alert(1) HTTP/9.9\r\n\r\n", 505),
        ("\x00\xff\r\n\r\n", 400),
        (
            "POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\n"
            "5\r\nhello\r\n0\r\n\r\n",
            411,
        ),
        ("POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: x\r\n\r\n", 400),
        (f"POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 500000\r\n\r\n{'x' * 500_000}", 413),
        ("POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 999999999\r\n\r\nshort", 413),
        (
            "POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {LONGEST_BODY}\r\n\r\nshort",
            400,
        ),
    ],
)
def test_requests_as_no_browser_sends_them(site, request_text, status):
    answer = ask(site, request_text)
    head, _, body = answer.partition("\r\n\r\n")
    assert re.match(rf"HTTP/1\.[01] {status} ", head), head
    for name, value in HEADERS.items():
        assert head.count(f"\r\n{name}: {value}") == 1, name
    assert head.count("Content-Security-Policy: default-src 'none'") == 1
    assert "alert" not in answer
    assert "evil" not in answer
    assert "Python" not in head
    assert not re.search(r"Traceback|def |site/", body)


def test_many_at_once_and_a_flood_of_idle_connections(site):
    idle = [socket.create_connection(("127.0.0.1", site.port), timeout=20) for _ in range(MOST_CONNECTIONS + 10)]
    try:
        closed = 0
        for connection in idle[MOST_CONNECTIONS:]:
            closed += connection.recv(1) == b""
        assert closed == 10
    finally:
        for connection in idle:
            connection.close()

    def read(_):
        with urllib.request.urlopen(f"{site.url}/healthz", timeout=30) as answer:
            return answer.status

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(read, range(40))) == {200}


def test_only_this_machine_is_served_unless_it_is_said_twice(shop):
    with pytest.raises(ValueError, match=r"host='0\.0\.0\.0' can be reached from other machines.*exposed=True"):
        Site(shop, host="0.0.0.0")
    with pytest.warns(UserWarning, match="open to everybody"):
        opened = Site(shop, host="0.0.0.0", exposed=True, names=("shop.lan",))
    with opened:
        assert opened.url == f"http://127.0.0.1:{opened.port}"
        assert " 200 " in ask(opened, "GET /healthz HTTP/1.1\r\nHost: shop.lan:PORT\r\n\r\n")
        assert " 421 " in ask(opened, "GET /healthz HTTP/1.1\r\nHost: other.lan:PORT\r\n\r\n")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", opened.port), timeout=5)


def test_a_taken_port_is_told(site, shop):
    with pytest.raises(OSError, match="in use"):
        Site(shop, port=site.port)


def test_without_flask_the_error_names_the_extra(shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "flask", None)
    with pytest.raises(ImportError, match=r'needs flask\. Install it with: pip install "mage-envs\[webshop\]"'):
        create_app(shop)


def test_importing_the_site_loads_no_flask():
    script = (
        "import sys, mage_envs.games.webshop.site.command; print('flask' in sys.modules, 'werkzeug' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False False\n"


def test_the_command(data):
    command = [sys.executable, "-W", "error", "-m", "mage_envs.games.webshop.site", "--port", "0", "--data", str(data)]
    env = {**os.environ, "FLASK_DEBUG": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env
    ) as served:
        try:
            told = re.fullmatch(
                r"WebShop is at (http://127\.0\.0\.1:\d+) \(Ctrl-C stops it\)\.\n", served.stdout.readline()
            )
            with urllib.request.urlopen(f"{told[1]}/healthz", timeout=30) as answer:
                assert answer.read() == b'{"products":23,"status":"ok","visits":0}\n'
        finally:
            served.send_signal(signal.SIGINT)
        _, errors = served.communicate(timeout=30)
    assert (served.returncode, errors) == (0, "")


def test_the_command_shows_an_agent(data):
    script = (
        "import argparse\n"
        "from mage_envs.games.webshop.site import command\n"
        "from opponents import make_opponent\n"
        "parser = argparse.ArgumentParser()\n"
        "command.add_options(parser, ('rule', 'oracle'))\n"
        "command.serve(parser.parse_args(), lambda name, game: make_opponent(f'webshop/{name}', game))\n"
    )
    options = ["--port", "0", "--data", str(data), "--watch-agent", "oracle", "--pace", "0.01"]
    command = [sys.executable, "-W", "error", "-c", script, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as served:
        try:
            served.stdout.readline()
            address = re.fullmatch(r"Watch the oracle agent at (http:\S+/watch/\w{32})\n", served.stdout.readline())[1]
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert "Live: oracle agent" in answer.read().decode()
        finally:
            served.terminate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "huge"], "size='huge' is unknown"),
        (["--data", "/no/such/place"], "/no/such/place"),
        (["--host", "0.0.0.0"], "host='0.0.0.0' can be reached from other machines"),
    ],
)
def test_the_commands_errors_are_one_line(arguments, message, data):
    given = arguments if "--data" in arguments or "--size" in arguments else [*arguments, "--data", str(data)]
    command = [sys.executable, "-m", "mage_envs.games.webshop.site", "--port", "0", *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("webshop: ")
    assert message in done.stderr
