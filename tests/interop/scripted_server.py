"""An OpenAI-compatible server that answers as `scripted:first` does, and keeps every request."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def first_reply(text: str) -> str:
    """Return the reply of `scripted:first` to a prompt."""
    if "<remark>" in text.rsplit("\n", 1)[-1]:
        return "<remark>No remark.</remark>"
    [*_, listed] = re.findall(r"Legal actions: (.*)", text)
    return f"<action>{listed.split(' | ')[0]}</action>"


class Handler(BaseHTTPRequestHandler):
    """Answers of the server. `requests` holds the bodies of all requests."""

    requests: list[dict[str, Any]]
    has_usage = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body)
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        message = {"role": "assistant", "content": first_reply(text)}
        shared = {"id": "1", "created": 0, "model": body["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if body.get("stream"):
            chunks = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"}]
            events = [
                {**shared, "object": "chat.completion.chunk", "choices": [{"index": 0, **chunk}]} for chunk in chunks
            ]
            events.append({**shared, "object": "chat.completion.chunk", "choices": [], "usage": usage})
            data = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
            self._send(data, "text/event-stream")
        else:
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            answer = {**shared, "object": "chat.completion", "choices": choices}
            answer |= {"usage": usage} if self.has_usage else {}
            self._send(json.dumps(answer), "application/json")

    def _send(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: Any) -> None:
        """Keep the test's output clean."""


@contextmanager
def serve_script(has_usage: bool = True) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Run the server. Yields its base URL and the list of its requests. Without usage, records hold the texts alone."""
    requests: list[dict[str, Any]] = []
    handler = type("Bound", (Handler,), {"requests": requests, "has_usage": has_usage})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
