"""The mechanism of related tasks, with the game of docs/related.md.

Each test is a process of its own, because the registries of games and opponents are global.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import ROOT, run_python

MARK = "<!-- file: my_guest.py -->\n```python\n"

CONTRACT = """
import my_guest
from mage_envs.testing import check_id
for kind in ("v0", "Meta-v0"):
    check_id(f"mage/Guest-{kind}")
    check_id(f"mage/Guest-{kind}", opponent="guest:sour", hands_per_episode=2)
check_id("mage/Guest-Meta-v0", protocol="paper", memory="given/history")
"""

LEAKS = """
import my_guest
from dataclasses import replace
import mage_envs
from mage_envs import register_related
from mage_envs.testing import Finding, check_id

class Telling(my_guest.Order):
    def observation(self, seat):
        return f"{super().observation(seat)} The answer is {self.fact}."

class Named(my_guest.Order):
    task_id = property(lambda self: f"menu {self.menu[0]} for {self.fact}")

for name, state in (("Telling", Telling), ("Named", Named)):
    spec = replace(my_guest.Guest.spec, name=name)
    begin = lambda self, errand, fact, state=state: state(errand, fact)
    game = type(name, (my_guest.Guest,), {"spec": spec, "begin": begin})
    my_guest.__dict__[name] = game
    game.__module__ = "my_guest"
    register_related(name, game, facts={"sweet": 1.0, "sour": 1.0}, prefix=name.lower())
    try:
        check_id(f"mage/{name}-v0")
    except Finding as error:
        assert "shows the hidden fact" in str(error), error
    else:
        raise SystemExit(f"{name} passed")

for change in ({"perfect_information": True}, {"series": False}, {"players": 3}):
    game = type("Bad", (my_guest.Guest,), {"spec": replace(my_guest.Guest.spec, name="Bad", **change)})
    try:
        register_related("Bad", game, facts={"sweet": 1.0}, prefix="bad")
    except ValueError as error:
        assert "perfect_information" in str(error)
    else:
        raise SystemExit(f"{change} passed")
assert "Bad" not in mage_envs.list_games()
try:
    register_related("Guest2", my_guest.Guest, facts={"sweet": 1.0}, prefix="guest2", held_out={"salty": 1.0})
except ValueError as error:
    assert "salty" in str(error)
else:
    raise SystemExit("an unknown fact was held out")
"""

SERIES = """
import gymnasium as gym
import my_guest
import pytest

base = gym.make("mage/Guest-v0", opponent="guest:sour")
meta = gym.make("mage/Guest-Meta-v0", opponent="guest:sour", num_episodes=4, memory="none", protocol="paper")
for seed in range(50):
    alone = []
    for episode in (3, 0, 2, 1):
        base.reset(seed=seed, options={"episode": episode})
        alone.append((episode, base.unwrapped.hand.state.own.menu))
    played = []
    _, info = meta.reset(seed=seed)
    for _ in range(4):
        played.append(tuple(info["legal_actions"]))
        *_, done, _, info = meta.step(f"<action>{info['legal_actions'][0]}</action>")
    # No replay and no early stop, although the protocol asks for both.
    assert done and len(set(played)) == 4, played
    assert [tuple(sorted(menu)) for _, menu in sorted(alone)] == played
    # The same task under rotation: episode k has the task of episode k + 1.
    _, info = meta.reset(seed=seed, options={"rotation": 1})
    rotated = []
    for _ in range(4):
        rotated.append(tuple(info["legal_actions"]))
        *_, info = meta.step(f"<action>{info['legal_actions'][0]}</action>")
    assert rotated == played[1:] + played[:1]
with pytest.raises(ValueError, match="deal='replay'"):
    gym.make("mage/Guest-Meta-v0", deal="replay")
with pytest.raises(ValueError, match="rotation=1 requires a game of related tasks"):
    gym.make("mage/KuhnPoker-Meta-v0").reset(options={"rotation": 1})
two = gym.make("mage/Guest-v0", hands_per_episode=2)
menus = []
for episode in (0, 1):
    two.reset(seed=3, options={"episode": episode})
    for _ in range(2):
        menus.append(two.unwrapped.hand.state.own.menu)
        two.step(menus[-1][0])
assert len(set(menus)) == 4, menus
"""

PROMPTS = """
import gymnasium as gym
import my_guest

env = gym.make("mage/Guest-Meta-v0", opponent="guest:sour", memory="given/history", max_turns=12)
prompt, info = env.reset(seed=1)
assert "You play 3 episodes. The guest and its taste stay the same. Every episode has another menu." in prompt
assert "The guest likes what is sour." in prompt and "opponent" not in info
blind = gym.make("mage/Guest-Meta-v0", opponent="guest:sour", memory="reflection", max_turns=12)
prompt, _ = blind.reset(seed=1)
assert "sour" not in prompt
for number in range(9):
    prompt, *_ = blind.step(f"<action>wrong {number}</action>")
assert all(f"wrong {number}" in prompt for number in range(9))
prompt, *_, info = blind.step("<action>" + blind.unwrapped.hand.state.legal_actions[0] + "</action>")
assert info["phase"] == "reflect" and "wrong 0" in prompt, "the whole episode is evidence"
"""

PANELS = """
import my_guest
from collections import Counter
from mage_envs.benchmarks.evaluation.run.agents import PolicyAgent
from mage_envs.benchmarks.evaluation.run.baselines import baseline_rows
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.scores import summarise
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from dataclasses import replace
from mage_envs import settings_of

panel = named_panel("guest-related-128")
tasks = panel.tasks()
assert [task.opponent for task in tasks[:3]] == ["guest:sweet", "guest:bitter", "guest:sour"]
few = named_panel("guest-related-16").tasks()
assert (len(tasks), len(few)) == (135, 18) and tasks[:18] == few
assert Counter(Counter((task.seed, task.opponent) for task in tasks).values()) == {3: 45}
assert {task.rotation for task in panel.tasks({"num_episodes": 4})} == {0, 1, 2, 3}
assert "rotation" not in tasks[0].to_json() and tasks[3].to_json()["rotation"] == 1

class Knowing:
    def reset(self, rng): ...
    def act(self, turn):
        place = my_guest.TASTES.index(turn.opponent.partition(":")[2])
        return next(menu[place] for menu in my_guest.MENUS if set(menu) == set(turn.legal_actions))

setting = Setting(panel, "guest", {"reveal_opponent": True, "memory": "none"})
game = my_guest.Guest()
known = summarise(evaluate(PolicyAgent(lambda game: Knowing(), "known"), setting.tasks, setting.options), game)
assert [one.success.estimate.mean for one in known.overall.episodes] == [1.0] * 3 and known.objective == "success"

class Kiwi:
    # It succeeds in one task alone, whose difficulty rotations spread over the episodes.
    def reset(self, rng): ...
    def act(self, turn):
        return "kiwi" if "kiwi" in turn.legal_actions else "honey" if "honey" in turn.legal_actions else "x"

scores = summarise(evaluate(PolicyAgent(lambda game: Kiwi(), "kiwi"), setting.tasks, setting.options), game).overall
assert scores.success_gain.mean == 0 and scores.success_gain.half == 0, "paired within the set"
assert len({one.success.estimate.mean for one in scores.episodes}) == 1
given = replace(settings_of("Guest"), references={"floor": "scripted:random"})
setting = Setting(named_panel("guest-related-16"), "guest", {"settings": given})
rows = baseline_rows(setting, lambda agent, plain: evaluate(agent, plain.tasks, plain.options))
assert [row.opponent for row in rows] == ["floor"] and rows[0].meta_episodes == 18
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file that docs/related.md shows."""
    page = (ROOT / "docs" / "related.md").read_text()
    assert page.count(MARK) == 1
    code = page.split(MARK)[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
    (tmp_path / "my_guest.py").write_text(code)
    return tmp_path


@pytest.mark.parametrize(
    "code", [CONTRACT, LEAKS, SERIES, PROMPTS, PANELS], ids=["contract", "leaks", "series", "prompts", "panels"]
)
def test_a_game_of_related_tasks(folder: Path, code: str) -> None:
    process = run_python("-P", "-c", code, folder=folder, path=(ROOT, folder))
    assert process.returncode == 0, process.stderr
