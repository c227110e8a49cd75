"""Golden playthroughs: whole exchanges as text files under tests/golden, compared byte for byte.

A change of wording, of randomness or of a reward shows up as a readable diff. `python -m tests.test_golden --write`
writes the files again. Read them as the model would before you commit them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import mage_envs  # noqa: F401  (registers the ids)

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Scene:
    """One playthrough: environment, seed, and the learner's replies."""

    env_id: str
    seed: int
    plays: tuple[str, ...]
    """Replies to play prompts, one after another; then the first legal action."""
    remarks: tuple[str, ...] = ()
    """Replies to the memory's requests, one after another; then nothing."""
    options: dict[str, Any] = field(default_factory=dict)


def _acts(*actions: str) -> tuple[str, ...]:
    return tuple(f"<action>{action}</action>" for action in actions)


META = "mage/KuhnPoker-Meta-v0"
SCENES = {
    "kuhn_meta": Scene(
        META,
        3,
        (
            "<think>A bluff could work: <action>fold</action>?</think>A bet it is. <action>BET</action>",
            "I would rather pass.",
            *_acts("pass", " Check ", "raise", "fold", "CALL", "call"),
        ),
        ("<remark>The opponent bets whatever it holds. Trap it with K, fold J.</remark>", "No tag, so no plan."),
        options={"opponent": "kuhn/aggressive", "hands_per_episode": 2},
    ),
    "kuhn_meta_both": Scene(
        META,
        8,
        _acts("BET", "PASS", "BET", "BET"),
        ("<remark>Bet more.</remark>", "<remark>Bet less.</remark>"),
        options={"opponent": "kuhn/conservative", "memory": "both"},
    ),
    "kuhn_meta_timeout": Scene(
        META,
        1,
        ("<action>bluff</action>", "", "<action>BET</action>"),
        ("<remark>Answer in tags.</remark>",),
        options={"opponent": "kuhn/intermediate", "num_episodes": 2, "max_turns": 2},
    ),
    "kuhn_conversation": Scene(
        META,
        5,
        _acts("check", "shrug", "BET", "BET"),
        ("<remark>It bets a lot.</remark>",),
        options={"opponent": "kuhn/aggressive", "num_episodes": 2, "context": "conversation", "memory": "both"},
    ),
    "kuhn_words_conversation": Scene(
        META,
        2,
        ("bet", "check", "raise", "call", "fold", "check", "check", "bet"),
        (),
        options={
            "opponent": "kuhn/aggressive",
            "hands_per_episode": 2,
            "num_episodes": 3,
            "context": "conversation",
            "memory": "history",
            "style": "words",
            "on_invalid": "forfeit",
        },
    ),
    "kuhn_words_reflection": Scene(
        META,
        4,
        ("bet", "call", "check", "fold", "check", "bet"),
        ("opponent bets often", ""),
        options={"opponent": "kuhn/aggressive", "hands_per_episode": 2, "style": "words"},
    ),
    "kuhn_paper": Scene(
        META,
        6,
        _acts("PASS", "PASS", "BET"),
        ("<remark>It bets with everything; call with Q and K.</remark>", "<remark>Folding gains nothing.</remark>"),
        options={"opponent": "kuhn/aggressive", "protocol": "paper"},
    ),
    "kuhn_base": Scene(
        "mage/KuhnPoker-v0",
        0,
        ("raise", "PASS", "BET", "check", "call", "BET"),
        (),
        options={"opponent": "kuhn/aggressive", "hands_per_episode": 3},
    ),
    "tictactoe_meta": Scene(
        "mage/TicTacToe-Meta-v0",
        7,
        (
            *_acts("(2, 2)", "(2, 2)", "1 1"),
            "<think>The corner.",
            *_acts("(9, 9)", "3,3", "(1,3)", "(1, 2)", "(2, 1)", "(3, 3)"),
        ),
        ("<remark>It blocks every pair: take the centre, then a corner.</remark>",),
        options={"opponent": "minimax", "num_episodes": 2},
    ),
    "dilemma_meta": Scene(
        "mage/PrisonersDilemma-Meta-v0",
        1,
        _acts("cooperate", "betray", "D", "cooperate", "defect", "defect"),
        ("<remark>One defection was never forgiven: cooperate until the last round.</remark>",),
        options={"opponent": "pd/grim", "num_episodes": 2, "rounds": 3, "noise": 0.1},
    ),
    "ultimatum_meta": Scene(
        "mage/Ultimatum-Meta-v0",
        2,
        _acts("offer 2", "5", "offer 0", "3", "4"),
        ("<remark>2 were too few, 5 enough: try 3, then 4.</remark>",),
        options={"opponent": "ultimatum/reserve:4", "num_episodes": 2, "offers": 2},
    ),
    "rps_base": Scene(
        "mage/RockPaperScissors-v0", 3, ("rock", "p", "well", "scissors", "rock"), (), options={"opponent": "rps/copy"}
    ),
    "bargaining_base": Scene(
        "mage/Bargaining-v0",
        4,
        ("take everything", "take hat and ball", "take book", "accept"),
        (),
        options={"opponent": "bargain/conceder", "hands_per_episode": 2},
    ),
    "inspection_base": Scene(
        "mage/Inspection-v0",
        5,
        ("vault", "garden", "cellar", "garage"),
        (),
        options={"opponent": "inspect/repeat:garage"},
    ),
    "tictactoe_base": Scene(
        "mage/TicTacToe-v0", 1, ("2 2", "(2,2)", "1, 1", "garbage"), (), options={"opponent": "minimax"}
    ),
}

_SHOP = (
    "The instruction names an umbrella. <action>search[manual lift patio umbrella]</action>",
    "Back, perhaps? <action>click[nowhere]</action>",
    "No more turns.",
)
_ROOM = (
    "The lower box can go down first. <action>right, right</action>",
    "Now push. <action>down</action>",
    "It stands against the wall. <action>push</action>",
)
_HANDS = (
    "A jack wins against nothing. <action>call</action>",
    "<think>What now?</think>I bet to see what it does. <action>bet</action>",
    "It never folds. <action>check</action>",
)
_REFLECTIONS = ("<remark>Call less with the lowest card.</remark>", "Without the tag: look before acting.")
_NOTES = (
    '{"keywords": ["first", "attempt", "lost"], "context": "How the first attempt went.", "tags": ["a", "b", "c"]}',
    "No JSON at all.",
    '{"links": [1, 9], "tags": ["later"], "update": [{"label": 1, "context": "It went as the second did."}]}',
)
_PLANS = (
    "<remark>1. Look closely.\n2. Act.</remark>",
    "<remark>Do as before, but better.</remark>",
    "1. No tag.\n2. Still a list.",
)
_GAMES: dict[str, tuple[str, int, tuple[str, ...], dict[str, Any]]] = {
    "kuhn": (META, 3, _HANDS, {"opponent": "kuhn/aggressive"}),
    "sokoban": ("mage/Sokoban-Meta-v0", 3, _ROOM, {"max_turns": 3}),
    "webshop": ("mage/WebShop-Meta-v0", 3, _SHOP, {"size": "tiny", "max_turns": 3}),
}
_MEMORIES = {
    "react": ("react:think_action=true", ()),
    "reflexion": ("reflexion", _REFLECTIONS),
    "amem": ("amem", _NOTES),
    "memento": ("memento", _PLANS),
}
SCENES |= {
    f"{game}_{name}": Scene(env_id, seed, plays, answers, options={"memory": memory, **options})
    for game, (env_id, seed, plays, options) in _GAMES.items()
    for name, (memory, answers) in _MEMORIES.items()
}

BEFORE = ("phase", "kind", "episode_index", "hand", "seat", "legal_actions")
AFTER = (
    "invalid_reason",
    "penalty",
    "thought",
    "hand_end",
    "hand_reward",
    "episode_end",
    "episode_return",
    "episode_value",
    "success",
    "timeout",
    "memory_events",
    "opponent",
)


def _format_entries(info: dict[str, Any], keys: tuple[str, ...]) -> str:
    """The info that says something, as `key=value`."""
    info = info | info["private"]
    entries = {key: info[key] for key in keys if info.get(key) not in (None, "", False, 0.0)}
    return " ".join(f"{key}={value!r}" for key, value in entries.items())


def _about(info: dict[str, Any]) -> str:
    shown_keys = [key for key in BEFORE if key in info and key != "legal_actions"]
    entries = {key: info[key] for key in shown_keys if key != "kind" or info["kind"] not in ("play", "reflect")}
    text = " ".join(f"{key}={value}" for key, value in entries.items())
    return f"{text} legal={' | '.join(info['legal_actions']) or 'any text'}"


def _next_reply(plays: list[str], remarks: list[str], info: dict[str, Any], env: gym.Env[str, str], meta: bool) -> str:
    if info.get("phase") == "reflect":
        return remarks.pop(0) if remarks else ""
    if plays:
        return plays.pop(0)
    action = (*info["legal_actions"], "nothing")[0]
    bare = not meta or info["answer_tag"] is None
    return action if bare else f"<action>{action}</action>"


def playthrough(name: str) -> str:
    """The whole exchange of a scene of this file, as text."""
    return exchange(SCENES[name])


def exchange(scene: Scene) -> str:
    """The whole exchange of a scene, as text."""
    meta = "Meta" in scene.env_id
    env = gym.make(scene.env_id, disable_env_checker=True, **scene.options)
    options = " ".join(f"{key}={value!r}" for key, value in scene.options.items())
    lines = [f"{scene.env_id} {options} seed={scene.seed}"]
    observation, info = env.reset(seed=scene.seed)
    plays, remarks, call, is_over = list(scene.plays), list(scene.remarks), 0, False
    while not is_over:
        call += 1
        reply = _next_reply(plays, remarks, info, env, meta)
        lines += ["", f"======== {call}. {_about(info)}", observation, f"-------- reply {call}", reply]
        observation, reward, terminated, truncated, info = env.step(reply)
        lines += [f"-------- reward={reward:g} {_format_entries(info, AFTER)}".rstrip()]
        is_over = terminated or truncated
        assert call < 100
    lines += ["", "======== the end", observation, ""]
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(SCENES))
def test_playthrough_is_as_recorded(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    assert path.exists(), f"{path.name} is missing; write it with: python -m tests.test_golden --write"
    assert playthrough(name).encode() == path.read_bytes(), "If it is meant: python -m tests.test_golden --write"


def test_every_file_has_its_scene() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCENES)


@pytest.mark.parametrize(
    "name", [name for name, scene in sorted(SCENES.items()) if "Meta" in scene.env_id and "opponent" in scene.options]
)
def test_no_prompt_names_the_opponent(name: str) -> None:
    opponent = SCENES[name].options["opponent"]
    text = playthrough(name).split("\n", 1)[1]
    text_shown = text.rsplit("opponent=", 1)[0]
    assert opponent not in text_shown
    assert opponent.rpartition("/")[2] not in text_shown


def _write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in SCENES:
        (FOLDER / f"{name}.txt").write_bytes(playthrough(name).encode())


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m tests.test_golden --write")
    _write()
