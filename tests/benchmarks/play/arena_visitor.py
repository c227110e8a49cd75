"""A visitor of the arena without a browser, and the agents that it watches."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np

from mage_envs.benchmarks.evaluation.run.agents import Agent, GeneratorAgent
from mage_envs.benchmarks.play.arena import create_app
from mage_envs.benchmarks.play.watched import WatchedAgent
from mage_envs.text.generation import Completion
from mage_envs.web.security import host_names

ROOT = "http://127.0.0.1:3001"
GAMES = ("KuhnPoker", "TicTacToe")


class ArenaVisitor:
    """Flask's test client with a person's eyes: it fills the forms of the page that it is on."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("rng", np.random.default_rng(0))
        options.setdefault("games", lambda: GAMES)
        self.client = create_app(host_names(3001), **options).test_client()
        self.pages: list[str] = []

    @property
    def page(self) -> str:
        return self.response.get_data(as_text=True)

    @property
    def text(self) -> str:
        """The page without its tags."""
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.page)))

    @property
    def status(self) -> int:
        return self.response.status_code

    def _keep(self, response: Any) -> ArenaVisitor:
        self.response = response
        self.pages.append(self.page)
        return self

    def get(self, path: str) -> ArenaVisitor:
        return self._keep(self.client.get(path, base_url=ROOT, follow_redirects=True))

    def post(self, path: str, **form: str) -> ArenaVisitor:
        """Send a form with the hidden fields of this page."""
        hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.page)
        fields = {name: html.unescape(value) for name, value in hidden}
        return self._keep(self.client.post(path, data=fields | form, base_url=ROOT, follow_redirects=True))

    def start(self, game: str = "KuhnPoker", opponent: str = "pool:kuhn/paper", episodes: str = "3") -> ArenaVisitor:
        return self.get(f"/games/{game}").post("/sittings", game=game, opponent=opponent, episodes=episodes)

    def answer(self, text: str) -> ArenaVisitor:
        return self.post("/play", answer=text)

    def buttons(self) -> list[str]:
        """The actions that can be clicked."""
        values = re.findall(r'<button name="answer" value="([^"]*)"(?! disabled)', self.page)
        return [html.unescape(value) for value in values]

    def to_the_end(self, note: str = "") -> ArenaVisitor:
        """Click the first action until the end."""
        for _ in range(100):
            if 'id="again"' in self.page:
                return self
            self.answer(note if "<textarea" in self.page else self.buttons()[0])
        raise AssertionError(self.text)


class Replies:
    """A generator whose answers begin with a text, in the tags of the prompt."""

    def __init__(self, text: str) -> None:
        self._text = text

    def generate(self, prompts: Any) -> list[Completion]:
        return [
            Completion(f"{self._text} <{prompt.info['answer_tag']}>{self._text}</{prompt.info['answer_tag']}>")
            for prompt in prompts
        ]


def watch_agent(agent: Agent | str, **options: Any) -> WatchedAgent:
    """Return a watched agent. If `agent` is a text, the agent answers with that text."""
    inner_agent = GeneratorAgent(Replies(agent), agent) if isinstance(agent, str) else agent
    return WatchedAgent(inner_agent, None, options, np.random.default_rng(0))
