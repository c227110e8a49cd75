"""A chat endpoint on this machine: a tiny model served for real, and failures on request."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForCausalLM, AutoTokenizer

from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer

MOST = 8
"""Tokens of an answer: the server's own limit, as this model hardly ever ends one."""
Trouble = Callable[["Handler", dict[str, Any]], None]
"""Answers one request in place of the model."""


class TinyModel:
    """`tiny` writes free text. `tiny-guided` writes free text as its thought, and then a legal action of its prompt."""

    def __init__(self, folder: Path) -> None:
        path = general_tiny(folder)
        self.model = AutoModelForCausalLM.from_pretrained(path)
        self.tokens = ChatTokenizer(AutoTokenizer.from_pretrained(path))
        self.lock = threading.Lock()
        self.unseeded = 0

    def reply(self, body: dict[str, Any]) -> Completion:
        """Return a function of the request if it contains a seed, otherwise another answer at each call."""
        messages = tuple(Message(message["role"], message["content"]) for message in body["messages"])
        with self.lock:
            self.unseeded += "seed" not in body
            prompt = Prompt(messages, seed=(1, body["seed"]) if "seed" in body else (2, self.unseeded))
            sampling = Sampling(min(body["max_tokens"], MOST), body["temperature"])
            generator = HFGenerator(self.model, self.tokens, sampling)
            [written] = generator.generate([prompt])
            if body["model"] == "tiny":
                return written
            listed = re.findall("Legal actions: (.*)", messages[-1].content)
            if not listed:
                return Completion(f"<remark>{written.text}</remark>", written.prompt_ids, written.ids)
            actions = listed[-1].split(" | ")
            [scores] = generator.score([prompt], [actions])
        mean_scores = np.array(scores) / [len(action) for action in actions]
        action = actions[int(np.argmax(mean_scores + np.random.default_rng(prompt.seed).gumbel(size=len(actions))))]
        text = f"<think>{written.text}<action>raise</action></think>\n<action>{action.upper()}</action>"
        return Completion(text, written.prompt_ids, written.ids)


class LegalModel:
    """Replies with the last legal action, at once; `reasoning` and `truncated` are those of every reply."""

    def __init__(self, reasoning: str | None = None, truncated: bool = False) -> None:
        self.reasoning, self.truncated = reasoning, truncated

    def reply(self, body: dict[str, Any]) -> Completion:
        listed = re.findall("Legal actions: (.*)", body["messages"][-1]["content"])
        text = f"<action>{listed[-1].split(' | ')[-1]}</action>" if listed else "<remark>noted</remark>"
        return Completion(text, (1,) * 100, (1,) * 10, truncated=self.truncated, reasoning=self.reasoning)


class Handler(BaseHTTPRequestHandler):
    """POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.headers.append(dict(self.headers))
            trouble = self.server.troubles.pop(0) if self.server.troubles else None
        if trouble is not None:
            trouble(self, body)
        elif self.path != "/v1/chat/completions":
            self.send(404, {"detail": "Not Found"})
        elif body["model"] not in ("tiny", "tiny-guided"):
            error = {"message": f"The model `{body['model']}` does not exist.", "code": "model_not_found"}
            self.send(404, {"error": error})
        else:
            completion = chat_completion(self.server.model.reply(body))
            self.send(200, completion if self.server.served is None else {**completion, "model": self.server.served})

    def do_GET(self) -> None:
        listed = self.server.listed
        self.send(404, {}) if listed is None else self.send(200, {"object": "list", "data": listed})

    def send(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


def chat_completion(completion: Completion) -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": completion.text}
                | ({} if completion.reasoning is None else {"reasoning_content": completion.reasoning}),
                "finish_reason": "length" if completion.truncated else "stop",
            }
        ],
        "usage": {"prompt_tokens": len(completion.prompt_ids), "completion_tokens": len(completion.ids)},
    }


class Server(ThreadingHTTPServer):
    """Serves until `stop`, which closes its connections too."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, model: TinyModel | LegalModel) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = model
        self.lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.troubles: list[Trouble | None] = []
        """One for each of the next requests; None: the model answers."""
        self.served: str | None = None
        """Id of the model in each reply, if it has one."""
        self.listed: list[dict[str, Any]] | None = None
        """Entries of the list of models; None: the server has no list."""
        self.stopped = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""

    def stop(self) -> None:
        if self.stopped.is_set():
            return
        self.stopped.set()
        self.shutdown()
        self.server_close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already


def status(code: int, message: str, headers: dict[str, str] | None = None) -> Trouble:
    return lambda handler, body: handler.send(code, {"error": {"message": message}}, headers)


def raw(content: bytes, content_type: str = "application/json") -> Trouble:
    return lambda handler, body: handler.send(200, content, {"Content-Type": content_type})


def says(message: dict[str, Any], finish_reason: str = "stop", usage: dict[str, int] | None = None) -> Trouble:
    data: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}
    return lambda handler, body: handler.send(200, data if usage is None else {**data, "usage": usage})


def silence(handler: Handler, body: dict[str, Any]) -> None:
    """No answer while the server runs."""
    handler.server.stopped.wait(60)
    handler.close_connection = True


def drip(handler: Handler, body: dict[str, Any]) -> None:
    """A blank now and then, so that the connection never falls silent, and never an answer."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.stopped.wait(0.05):
        handler.wfile.write(b" ")


def hang_up(handler: Handler, body: dict[str, Any]) -> None:
    handler.close_connection = True
