"""The server itself: real sockets, the command line, and the error if flask is missing."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from mage_envs.games.webshop.site import Site
from mage_envs.web import serving
from mage_envs.web.security import HEADERS, LONGEST_BODY
from mage_envs.web.serving import MOST_CONNECTIONS

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def site(shop):
    with Site(shop) as opened:
        yield opened


def ask(site, text: str) -> str:
    """Send bytes without changes, and return the whole answer."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as connection:
        connection.sendall(text.replace("PORT", str(site.port)).encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        return read(connection)


def read(connection: socket.socket) -> str:
    """Return all bytes until the connection ends."""
    return b"".join(iter(lambda: connection.recv(65_536), b"")).decode("latin-1")


POST = "POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"


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
        ("GET http://[ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 400),
        (f"GET /{'x' * 3_000} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 414),
        (f"GET /{'x' * 70_000} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 431),
        (f"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: {'x' * 70_000}\r\n\r\n", 431),
        ("<script>alert(1)</script>\r\n\r\n", 400),
        ("<script> alert(1) HTTP/9.9\r\n\r\n", 400),
        ("\x00\xff\r\n\r\n", 400),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 415),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\n20000\r\n{'x' * 0x20000}\r\n0\r\n\r\n", 413),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\nalert\r\n", 400),
        (f"{POST}Transfer-Encoding: gzip\r\n\r\n", 501),
        ("POST /search HTTP/1.0\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (f"{POST}\r\n", 411),
        (f"{POST}Content-Length: {'9' * 5_000}\r\n\r\n", 400),
        (f"{POST}Content-Length: 3\r\nContent-Length: 4\r\n\r\nalert", 400),
        (f"{POST}Content-Length: x\r\n\r\n", 400),
        (f"{POST}Content-Length: 500000\r\n\r\n{'x' * 500_000}", 413),
        (f"{POST}Content-Length: 999999999\r\n\r\nshort", 413),
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
    assert head.count("\r\nServer: mage") == 1
    assert not re.search("Python|waitress|Via:", head)
    assert not re.search(r"Traceback|def |site/", body)


def test_a_form_that_breaks_off_is_not_taken(site):
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    assert ask(site, f"{POST}{form}Content-Length: {LONGEST_BODY}\r\n\r\nshort") == ""
    assert " 403 " in ask(site, f"{POST}{form}Content-Length: 5\r\n\r\nshort")


@pytest.mark.parametrize("count", [80, MOST_CONNECTIONS + 40])
@pytest.mark.parametrize(
    "begun", ["", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n", f"{POST}Content-Length: 9\r\n\r\nx"]
)
def test_half_open_connections_block_no_visitor(site, begun, count):
    with ExitStack() as stack:
        half_open = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=20))
            connection.sendall(begun.replace("PORT", str(site.port)).encode())
            half_open.append(connection)
        assert healthy(site) == 200
        for connection in half_open[-80:]:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):  # still open, and still unanswered
                connection.recv(1)


def test_a_request_that_comes_in_pieces_is_answered(site):
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as connection:
        for piece in (
            "GE",
            "T /healthz HTTP/1.1\r",
            "\nHost: 127.0.0.1:",
            f"{site.port}\r\nConnection: close\r\n\r",
            "\n",
        ):
            connection.sendall(piece.encode())
            assert healthy(site) == 200
        assert " 200 " in read(connection)


def test_a_connection_on_which_nothing_happens_is_closed(shop, monkeypatch):
    monkeypatch.setattr(serving, "PATIENCE", 1)
    with Site(shop) as opened, socket.create_connection(("127.0.0.1", opened.port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert read(connection) == ""


def test_many_at_once_and_a_flood_of_idle_connections(site):
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS + 10):
            stack.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=20))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(healthy, [site] * 40)) == {200}


def healthy(site) -> int:
    with urllib.request.urlopen(f"{site.url}/healthz", timeout=20) as answer:
        return answer.status


def test_only_this_machine_is_served_unless_it_is_said_twice(shop):
    with pytest.raises(ValueError, match=r"host='0\.0\.0\.0' can be reached from other machines.*exposed=True"):
        Site(shop, host="0.0.0.0")
    with pytest.warns(UserWarning, match="open to all machines"):
        opened = Site(shop, host="0.0.0.0", exposed=True, names=("shop.lan",))
    with opened:
        assert opened.url == f"http://127.0.0.1:{opened.port}"
        assert " 200 " in ask(opened, "GET /healthz HTTP/1.1\r\nHost: shop.lan:PORT\r\n\r\n")
        assert " 421 " in ask(opened, "GET /healthz HTTP/1.1\r\nHost: other.lan:PORT\r\n\r\n")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", opened.port), timeout=5)


def test_a_taken_port_is_reported(site, shop):
    with pytest.raises(OSError, match="in use"):
        Site(shop, port=site.port)


@pytest.mark.parametrize("package", ["flask", "waitress"])
def test_without_a_package_the_error_names_the_extra(shop, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, serving.__name__)
    with pytest.raises(ImportError, match=rf'requires {package}\. Install it with: pip install "mage-envs\[webshop\]"'):
        Site(shop)


def test_importing_the_site_loads_no_server():
    names = "{'flask', 'werkzeug', 'waitress'}"
    script = f"import sys, mage_envs.benchmarks.commands.serve; print({names} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert process.stdout == "set()\n"


def test_the_command(data):
    command = [sys.executable, "-W", "error", "-m", "mage_envs", "serve", "webshop", "--port", "0", "--data", str(data)]
    env = {**os.environ, "FLASK_DEBUG": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env
    ) as served:
        try:
            match = re.fullmatch(
                r"WebShop is at http://127\.0\.0\.1:(\d+) \(Ctrl-C stops it\)\.\n", served.stdout.readline()
            )
            with socket.create_connection(("127.0.0.1", int(match[1])), 30) as asking:
                asking.sendall(f"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:{match[1]}\r\n\r\n".encode())
                answer = b"".join(iter(partial(asking.recv, 4096), b""))  # to its end, so that the server has closed it
            assert answer.endswith(b'\r\n\r\n{"products":23,"status":"ok","visits":0}\n')
        finally:
            served.send_signal(signal.SIGINT)
        _, errors = served.communicate(timeout=30)
    assert (served.returncode, errors) == (0, "")


def test_the_command_shows_an_agent(data):
    options = ["--port", "0", "--data", str(data), "--watch", "oracle", "--pace", "0.01"]
    command = [sys.executable, "-W", "error", "-m", "mage_envs", "serve", "webshop", *options]
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
    full_arguments = arguments if "--data" in arguments or "--size" in arguments else [*arguments, "--data", str(data)]
    command = [sys.executable, "-m", "mage_envs", "serve", "webshop", "--port", "0", *full_arguments]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (2, "", 1)
    assert process.stderr.startswith("mage: ")
    assert message in process.stderr
