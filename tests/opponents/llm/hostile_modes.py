"""Responses of a hostile or broken server, by name, each with the expected outcome of its prompt."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ANSWER, OVERFLOW = "answer", "overflow"
"""Outcomes of a prompt beside the kinds of failures and the reasons for an answer without text."""
TEXT = "<action>{action}</action>"
IDS = {"token_ids": [3, 4], "logprobs": {"token_logprobs": [-0.5, -0.25]}}
"""Fields that make a chat completion also a completion of `vllm serve`."""


class Mode(NamedTuple):
    """One behaviour of a server, for one request."""

    name: str
    kind: str
    parts: Callable[[], Iterator[bytes]] | bytes
    """Bytes to send, or what makes them. An empty part is a pause of 50 ms."""
    end: str = "close"
    """Behaviour after the last part: `close`, `reset`, or `hang` until the client ends the connection."""


def http(body: bytes, status: str = "200 OK", *headers: str, sized: bool = True) -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status}", *headers, *([f"Content-Length: {len(body)}"] if sized else [])]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def choice(text: Any, **fields: Any) -> dict[str, Any]:
    """A choice whose message has this content."""
    return {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **IDS, **fields}


def completion(text: Any = TEXT, **fields: Any) -> dict[str, Any]:
    """A chat completion."""
    return {"choices": [choice(text)], "usage": {"prompt_tokens": 5, "completion_tokens": 2}, **fields}


def encode_json(data: Any) -> bytes:
    return json.dumps(data).encode()


GOOD = encode_json(completion())


def chunk_body(body: bytes, size: int = 1, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    parts = (body[start : start + size] for start in range(0, len(body), size))
    coded = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
    return http(coded + b"0\r\n" + trailer + b"\r\n", "200 OK", "Transfer-Encoding: chunked", sized=False)


def endless(start: bytes, part: bytes) -> Callable[[], Iterator[bytes]]:
    def parts() -> Iterator[bytes]:
        yield start
        while True:
            yield part

    return parts


def dripping(start: bytes, part: bytes) -> Callable[[], Iterator[bytes]]:
    def parts() -> Iterator[bytes]:
        yield start
        while True:
            yield b""
            yield part

    return parts


OPEN = http(b"", "200 OK", "Content-Length: 1000000", sized=False)
CHUNKS = http(b"", "200 OK", "Transfer-Encoding: chunked", sized=False)
BOMB = gzip.compress(b" " * 20_000_000)

TRANSPORT = [
    Mode("silence", "timeout", b"", "hang"),
    Mode("silence-after-status", "timeout", b"HTTP/1.1 200 OK\r\n", "hang"),
    Mode("silence-after-headers", "timeout", OPEN, "hang"),
    Mode("silence-in-body", "timeout", OPEN + GOOD[:20], "hang"),
    Mode("drip-headers", "timeout", dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n")),
    Mode("drip-body", "timeout", dripping(OPEN, b" ")),
    Mode("drip-chunks", "timeout", dripping(CHUNKS, b"1\r\n \r\n")),
    Mode("drip-continue", "timeout", dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    Mode("endless-body", "garbage", endless(http(b"", sized=False), b" " * 65536)),
    Mode("endless-chunks", "garbage", endless(CHUNKS, b"4000\r\n" + b" " * 0x4000 + b"\r\n")),
    Mode("endless-error", "garbage", endless(http(b"", "500 Oh", sized=False), b"x" * 65536)),
    Mode("endless-headers", "connection", endless(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 8192 + b"\r\n")),
    Mode("close-at-once", "connection", b""),
    Mode("close-in-status", "connection", b"HTTP/1.1 2"),
    Mode("close-in-headers", "connection", b"HTTP/1.1 200 OK\r\nContent-"),
    Mode("close-in-body", "connection", OPEN + GOOD),
    Mode("close-in-chunk", "connection", CHUNKS + b"fff\r\nabc"),
    Mode("close-before-last-chunk", "connection", CHUNKS + b"3\r\nabc\r\n"),
    Mode("reset-at-once", "connection", b"", "reset"),
    Mode("reset-in-headers", "connection", b"HTTP/1.1 200 OK\r\nX: ", "reset"),
    Mode("reset-in-body", "connection", OPEN + GOOD, "reset"),
    Mode("chunk-size-text", "connection", CHUNKS + b"zz\r\nabc\r\n"),
    Mode("chunk-size-negative", "connection", CHUNKS + b"-5\r\nabc\r\n"),
    Mode("chunk-size-huge", "connection", CHUNKS + b"f" * 40 + b"\r\nabc\r\n"),
    Mode("chunk-without-end", "connection", CHUNKS + b"3\r\nabcdef\r\n0\r\n\r\n"),
    Mode("length-negative", "connection", http(GOOD, "200 OK", "Content-Length: -5", sized=False)),
    Mode("length-text", "connection", http(GOOD, "200 OK", "Content-Length: many", sized=False)),
    Mode("length-twice", "connection", http(GOOD, "200 OK", "Content-Length: 1")),
    Mode("length-huge", "connection", http(GOOD, "200 OK", f"Content-Length: {10**19}", sized=False)),
    Mode("length-5000-digits", "connection", http(GOOD, "200 OK", f"Content-Length: {'9' * 5000}", sized=False)),
    Mode("length-too-short", "garbage", http(GOOD, "200 OK", "Content-Length: 30", sized=False)),
    Mode("coding-unknown", "connection", http(GOOD, "200 OK", "Transfer-Encoding: rot13", sized=False)),
    Mode("no-http", "connection", b"220 mail.example ESMTP\r\n"),
    Mode("body-alone", "connection", GOOD),
    Mode("status-text", "connection", http(GOOD, "fine OK")),
    Mode("status-99", "connection", http(GOOD, "99 Low")),
    Mode("status-1000", "connection", http(GOOD, "1000 High")),
    Mode("switching", "connection", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    Mode("no-content", "garbage", http(b"", "204 No Content", sized=False)),
    Mode("reset-content", "garbage", http(b"", "205 Reset Content")),
    Mode("header-without-colon", "connection", http(GOOD, "200 OK", "nonsense")),
    Mode("header-with-nul", "connection", http(GOOD, "200 OK", "X: a\0b")),
    Mode("header-200-kb", "connection", http(GOOD, "200 OK", "X: " + "y" * 200_000)),
    Mode("headers-20000", "connection", http(GOOD, "200 OK", *(f"X{n}: y" for n in range(20_000)))),
    Mode("tls-alert", "connection", b"\x15\x03\x03\x00\x02\x02\x28"),
    Mode("http2", "connection", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Mode("zeros", "connection", b"\0" * 1000),
    Mode("gzip-damaged", "connection", http(b"\x1f\x8b" + GOOD, "200 OK", "Content-Encoding: gzip")),
    Mode("gzip-cut", "garbage", http(gzip.compress(GOOD)[:30], "200 OK", "Content-Encoding: gzip")),
    Mode("gzip-bomb", "garbage", http(BOMB, "200 OK", "Content-Encoding: gzip")),
    Mode("gzip-bomb-twice", "garbage", http(gzip.compress(BOMB), "200 OK", "Content-Encoding: gzip, gzip")),
    Mode("gzip-bomb-error", "garbage", http(BOMB, "503 Busy", "Content-Encoding: gzip")),
    Mode("deflate-bomb", "garbage", http(zlib.compress(b" " * 20_000_000), "200 OK", "Content-Encoding: deflate")),
    Mode("codings-5000", "connection", http(GOOD, "200 OK", f"Content-Encoding: {', '.join(['gzip'] * 5000)}")),
    Mode("coding-br", "garbage", http(b"\x8b\x02\x80", "200 OK", "Content-Encoding: br")),
]

RETRY_AFTER = {
    "year": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
    "zone": "Wed, 21 Oct 2030 07:28:00 +99999999999999999999",
    "year-9999": "Fri, 31 Dec 9999 23:59:59 -2359",
    "year-1": "Mon, 01 Jan 0001 00:00:00 +2359",
    "past": "Wed, 21 Oct 2015 07:28:00 GMT",
    "no-zone": "Wed, 21 Oct 2015 07:28:00",
    "day-99": "Wed, 99 Foo 2015 77:88:99 GMT",
    "huge-second": f"Wed, 21 Oct 2015 07:28:{10**30} GMT",
    "zero": "0",
    "negative": "-3",
    "nan": "nan",
    "infinity": "inf",
    "minus-infinity": "-inf",
    "overflow": "1e999",
    "century": "3153600000",
    "5000-digits": "9" * 5000,
    "text": "soon",
    "empty": "",
    "list": "1, 2, 3",
    "latin": "\xfcber\xfcber",
}
"""Forms of the header, by name."""

STATUS = [
    *(
        Mode(f"429-{name}", "http 429", http(b"", "429 Slow", f"Retry-After: {value}"))
        for name, value in RETRY_AFTER.items()
    ),
    *(
        Mode(f"http-{code}", f"http {code}", http(body, f"{code} Oh"))
        for code, body in {
            400: b'{"error": {"message": {"message": [1]}, "code": 7}}',
            401: b'{"error": "no"}',
            402: b'{"error": null}',
            403: b"<html>no</html>",
            404: b"[]",
            408: b"null",
            413: b'"large"',
            418: b"\xff\xfe\xfd",
            422: b'{"detail": [{"loc": 1}]}',
            451: b'{"error": ' * 5000,
            500: b"",
            502: b'{"message": "\\ud83d"}',
            504: b'{"error": 1e999}',
            529: b"9" * 5000,
            599: b"\x1b[2J\x07",
            999: b"{}",
        }.items()
    ),
    Mode("http-300", "http 300", http(b"", "300 Choose")),
    Mode("http-304", "http 304", http(b"", "304 Same")),
    *(
        Mode(f"redirect-{code}", "redirect", http(b"", f"{code} Go", "Location: http://127.0.0.1:1/v1"))
        for code in (301, 302, 303, 307, 308)
    ),
    Mode("redirect-elsewhere", "redirect", http(b"", "307 Go", "Location: //evil.example/")),
    Mode("redirect-file", "redirect", http(b"", "307 Go", "Location: file:///etc/passwd")),
    Mode("redirect-broken", "redirect", http(b"", "307 Go", "Location: http://[::1")),
    Mode("redirect-port", "redirect", http(b"", "307 Go", "Location: http://x:99999999999/")),
    Mode("too-long-code", OVERFLOW, http(encode_json({"error": {"code": "context_length_exceeded"}}), "400 Bad")),
    Mode("too-long-message", OVERFLOW, http(b"The prompt exceeds the context window.", "413 Large")),
]

GARBAGE: dict[str, Any] = {
    "nothing": b"",
    "null": None,
    "list": [],
    "object": {},
    "number": 5,
    "true": True,
    "text": "text",
    "nan": b"NaN",
    "infinity": b"-Infinity",
    "choices-null": {"choices": None},
    "choices-none": {"choices": []},
    "choices-object": {"choices": {}},
    "choices-text": {"choices": "abc"},
    "choices-number": {"choices": 5},
    "choice-null": {"choices": [None]},
    "choice-number": {"choices": [5]},
    "choice-list": {"choices": [[]]},
    "choice-empty": {"choices": [{}]},
    "message-null": {"choices": [{"message": None}]},
    "message-list": {"choices": [{"message": []}]},
    "message-text": {"choices": [{"message": "bet"}]},
    "streamed-delta": {"choices": [{"delta": {"content": "bet"}}]},
    "content-number": completion(5),
    "content-true": completion(True),
    "content-object": completion({"text": "bet"}),
    "parts-number": completion([5]),
    "parts-null": completion([None]),
    "parts-list": completion([["bet"]]),
    "parts-without-text": completion([{"type": "text"}]),
    "parts-text-number": completion([{"type": "text", "text": 5}]),
    "error-object": {"error": {"message": "out of memory"}},
    "deep-lists": b'{"choices": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    "deep-objects": b'{"choices":' * 10_000 + b"1" + b"}" * 10_000,
    "int-5000-digits": b'{"choices": ' + b"9" * 5000 + b"}",
    "cut": GOOD[:-5],
    "twice": GOOD + GOOD,
    "trailing": GOOD + b"}",
    "utf-8-broken": GOOD.replace(b"action", b"\xff\xfe"),
    "latin-1": GOOD.replace(b"action", b"\xfcber"),
    "single-quotes": GOOD.replace(b'"', b"'"),
    "comment": b"/* hello */" + GOOD,
    "control-character": GOOD.replace(b"action", b"\x01"),
    "html": b"<!doctype html><title>Login</title>",
    "xml": b"<?xml version='1.0'?><a/>",
    "binary": bytes(range(256)) * 10,
    "sse": b"data: " + GOOD + b"\n\ndata: [DONE]\n\n",
    "sse-comment": b": keep-alive\n\n" * 100,
    "lines": GOOD + b"\n" + GOOD + b"\n",
}
"""Bodies of status 200 that are not chat completions, by name."""

CALL = [{"id": "1", "type": "function", "function": {"name": "bet", "arguments": "{}"}}]
NO_TEXT: dict[str, tuple[str, dict[str, Any]]] = {
    "content-null": ("empty", choice(None)),
    "content-missing": ("empty", choice(None, message={})),
    "content-empty": ("empty", choice("")),
    "content-blank": ("empty", choice(" \n\t")),
    "parts-none": ("empty", choice([])),
    "parts-type-list": ("empty", choice([{"type": ["text"], "text": "bet"}])),
    "parts-thinking": ("empty", choice([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}])),
    "reasoning-alone": ("empty", choice(None, message={"content": None, "reasoning_content": "hm"})),
    "tool-calls": (
        "tool_calls",
        choice(None, message={"content": None, "tool_calls": CALL}, finish_reason="tool_calls"),
    ),
    "function-call": ("tool_calls", choice(None, message={"content": "", "function_call": {"name": "bet"}})),
    "refusal": ("refusal", choice(None, message={"content": None, "refusal": "I cannot gamble."})),
    "refusal-part": ("refusal", choice([{"type": "refusal", "refusal": "no"}])),
    "content-filter": ("refusal", choice("", finish_reason="content_filter")),
}
"""The reason for a missing text, and the choice, by name."""


def tokens(count: bytes) -> bytes:
    return GOOD.replace(b'"prompt_tokens": 5', b'"prompt_tokens": ' + count)


def with_content_type(kind: str) -> bytes:
    return http(GOOD, "200 OK", f"Content-Type: {kind}")


PARTS = [{"type": "text", "text": TEXT[:10]}, {"type": "image_url", "image_url": {}}, TEXT[10:]]
ANSWERS: dict[str, bytes] = {
    **{
        f"tokens-{name}": http(tokens(count))
        for name, count in {
            "400-digits": b"1" + b"0" * 400,
            "negative": b"-7",
            "nan": b"NaN",
            "infinity": b"Infinity",
            "1e999": b"1e999",
            "text": b'"5"',
            "null": b"null",
            "true": b"true",
            "half": b"1.5",
            "list": b"[[]]",
        }.items()
    },
    **{
        f"usage-{type(usage).__name__}": http(encode_json(completion(usage=usage)))
        for usage in (None, 5, "x", [1], True)
    },
    **{
        f"index-{type(index).__name__}": http(encode_json({"choices": [choice(TEXT, index=index)]}))
        for index in (None, "0", 1.5, [], {})
    },
    "index-huge": http(encode_json({"choices": [choice(TEXT, index=10**400)]})),
    "index-order": http(encode_json({"choices": [choice("other", index=1), choice(TEXT, index=0)]})),
    "reason-list": http(encode_json({"choices": [choice(TEXT, finish_reason=["length"])]})),
    "parts": http(encode_json(completion(PARTS))),
    "surrogate": http(encode_json(completion("\ud83d" + TEXT))),
    "nul": http(encode_json(completion("\0" + TEXT))),
    "bom": http(b"\xef\xbb\xbf" + GOOD),
    "utf-16": http(GOOD.decode().encode("utf-16")),
    "type-html": with_content_type("text/html"),
    "type-png": with_content_type("image/png"),
    "type-nonsense": with_content_type("\xfc/;;charset=utf-99"),
    "gzip": http(gzip.compress(GOOD), "200 OK", "Content-Encoding: gzip"),
    "chunks-of-1": chunk_body(GOOD),
    "chunk-extensions": chunk_body(GOOD, 50, b";" + b"x" * 500),
    "chunk-trailer": chunk_body(GOOD, 50, trailer=b"X: y\r\n"),
    "until-close": http(GOOD, sized=False),
    "http-9.9": http(GOOD).replace(b"HTTP/1.1", b"HTTP/9.9", 1),
    "http-1.0": http(GOOD).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "no-reason": http(GOOD, "200 "),
    "early-hints": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100 + http(GOOD),
    "cookies": http(GOOD, "200 OK", *(f"Set-Cookie: a{n}={'x' * 4000}; Path=/" for n in range(20))),
    "extra-bytes": http(GOOD) + b"HTTP/1.1 500 Late\r\n\r\n",
    "partial-content": http(GOOD, "206 Partial"),
}
"""Responses that are odd, and hold an answer all the same, by name."""

MODES: tuple[Mode, ...] = (
    *TRANSPORT,
    *STATUS,
    *(
        Mode(f"body-{name}", "garbage", http(body if isinstance(body, bytes) else encode_json(body)))
        for name, body in GARBAGE.items()
    ),
    *(
        Mode(f"no-text-{name}", kind, http(encode_json({"choices": [no_text_choice]})))
        for name, (kind, no_text_choice) in NO_TEXT.items()
    ),
    *(Mode(f"odd-{name}", ANSWER, response) for name, response in ANSWERS.items()),
)
BY_NAME = {mode.name: mode for mode in MODES}
