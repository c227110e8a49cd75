"""`--control`: the text that replaces a learner's own memory, for every strategy."""

from __future__ import annotations

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections import Counter
from dataclasses import replace

import pytest

from mage_envs import EpisodeRecord, HandResult, Turn, TurnRecord
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.controls import apply_control, memories_of
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.cli.program import main
from mage_envs.wrappers.controls import CONTROLS, parse_control, record_json, record_of

PANEL = Panel(
    env_id="mage/KuhnPoker-Meta-v0",
    about="",
    seed=3,
    size=0,
    rows_per_cell=1,
    opponents={"kuhn/rock": 1.0, "kuhn/maniac": 1.0},
)
HEADING = "# What you know from earlier episodes\n"
STRATEGIES = ("reflection", "history", "both", "react", "reflexion", "amem", "memento", "memento_trace")


def setting_of_memory(memory, **options):
    return Setting(PANEL, "by hand", {"memory": memory, "num_episodes": 4, **options})


def play(setting, folder=None):
    agent = make_agent("scripted:random")
    trajectories = evaluate(agent, setting.tasks, setting.options)
    assert not any(t.failure for t in trajectories)
    if folder is not None:
        writer = Writer(folder, about_run(agent, setting), resume=False)
        for index, trajectory in enumerate(trajectories):
            writer.add(index, trajectory)
        writer.close()
    return trajectories


def first_prompts(trajectory):
    """The first play prompt of each episode."""
    prompts = {}
    for step in trajectory.steps:
        if step.phase == "play":
            prompts.setdefault(step.episode, "\n".join(message.content for message in step.messages))
    return prompts


def kinds(trajectories):
    return Counter(step.kind for t in trajectories for step in t.steps if step.phase != "play")


@pytest.mark.parametrize("memory", STRATEGIES)
def test_every_strategy_runs_under_every_control(memory, tmp_path):
    plain = setting_of_memory(memory)
    plain_trajectories = play(plain, tmp_path / "run")
    entries = memories_of(tmp_path / "run", plain)
    texts = {
        (entry["task"], k): episode_record["text"]
        for entry in entries
        for k, episode_record in enumerate(entry["episodes"])
    }
    assert all(len(entry["episodes"]) == 4 for entry in entries)

    control_trajectories = play(apply_control(plain, "other", str(tmp_path / "run")))
    assert kinds(control_trajectories) == {}
    for trajectory in control_trajectories:
        (foreign,) = {"kuhn/rock", "kuhn/maniac"} - {trajectory.opponent}
        for episode, prompt in first_prompts(trajectory).items():
            foreign_texts = {entry["episodes"][episode]["text"] for entry in entries if entry["task"] == foreign}
            assert any(text in prompt for text in foreign_texts)
            for text in (
                texts[episode_record] for episode_record in texts if episode_record == (trajectory.opponent, episode)
            ):
                assert text not in prompt or any(text in foreign_text for foreign_text in foreign_texts)
    frozen = play(apply_control(plain, "frozen", None))
    plain_kinds = kinds(plain_trajectories)
    assert all(count <= plain_kinds[kind] for kind, count in kinds(frozen).items())
    if memory in ("reflection", "both"):
        assert kinds(frozen)["reflect"] == 4  # before the second episode of four meta-episodes, and never again
    shuffled = play(apply_control(plain, "shuffled", None))
    assert kinds(shuffled) == plain_kinds
    assert len(texts) == 8


@pytest.mark.parametrize(("style", "between"), [("plain", "\n\n"), ("words", "episode ")])
def test_the_items_are_the_same_and_their_order_is_not(style, between):
    plain, mixed = (play(setting_of_memory(memory, style=style)) for memory in ("history", "shuffled/history"))
    moved = 0
    for a, b in zip(plain, mixed, strict=True):
        first_text, second_text = (f"{first_prompts(t)[3].replace(HEADING, '')} " for t in (a, b))
        assert sorted(first_text.split(between)) == sorted(second_text.split(between))
        moved += first_text != second_text
    assert moved >= 2


def test_frozen_shows_the_first_episode_alone_to_the_end():
    plain, frozen = (play(setting_of_memory(memory)) for memory in ("history", "frozen/history"))
    for a, b in zip(plain, frozen, strict=True):
        assert first_prompts(a)[1] == first_prompts(b)[1]
        memory = [first_prompts(b)[k].split(HEADING)[1].split("\n\n# ")[0] for k in (1, 3)]
        assert memory[0] == memory[1]


def test_a_chat_is_exchanged_with_the_end_that_it_leads_to(tmp_path):
    plain = setting_of_memory("history", context="conversation", style="words")
    play(plain, tmp_path / "run")
    entries = memories_of(tmp_path / "run", plain)
    for trajectory in play(apply_control(plain, "other", str(tmp_path / "run"))):
        chats = [entry["episodes"] for entry in entries if entry["task"] != trajectory.opponent]
        for step in trajectory.steps:
            if step.episode and step.turn == 0 and step.phase == "play":
                assert step.fresh_chat
                messages_before = [message._asdict() for message in step.messages[:-1]]
                (match,) = {i for i, chat in enumerate(chats) if chat[step.episode]["chat"] == messages_before} or {
                    None
                }
                assert match is not None
    for trajectory in play(apply_control(plain, "frozen", None)):
        begins = [step for step in trajectory.steps if step.turn == 0]
        chats = [[m.content for m in step.messages[:-1]] for step in begins[2:]]
        assert chats[0] == chats[1]
        assert len(chats[0]) == 2 * sum(step.episode == 0 for step in trajectory.steps)
    with pytest.raises(RuntimeError, match="needs context='rebuilt'"):
        evaluate(make_agent("scripted:random"), plain.tasks, apply_control(plain, "shuffled", None).options)


def test_the_end_of_an_episode_is_kept_as_json(tmp_path):
    plain = setting_of_memory("history", context="conversation", style="words")
    play(plain, tmp_path / "run")
    memory_record = memories_of(tmp_path / "run", plain)[0]["episodes"][2]["previous"]
    assert record_json(record_of(memory_record)) == memory_record


def test_the_stored_form_of_an_episode_keeps_its_keys():
    """The digest of a stored source is a part of the run's setting, so the keys may not follow a renamed field."""
    hand = HandResult(1.0, seat=1, success=True, observation="You won.", information_state="Kb")
    turn = Turn(
        player=1,
        observation="Your card: K.",
        legal_actions=("call", "fold"),
        information_state="Kb",
        episode=2,
        history=("bet",),
        task_id="levels/7",
    )
    record = EpisodeRecord(
        index=2,
        first_observation="Your card: K.",
        turns=(TurnRecord("Your card: K.", "call", turn, legal=True, ended=hand, reply="call"),),
        outcome="You won.",
        reward=1.0,
        value=1.0,
        success=True,
        timeout=False,
        unit="chips",
        hands=(hand,),
        ended_as="success",
    )
    stored_record = json.loads(json.dumps(record_json(record)))
    stored = {
        "value": 1.0,
        "seat": 1,
        "ended_by": "rules",
        "success": True,
        "observation": "You won.",
        "information_state": "Kb",
    }
    assert stored_record["hands"] == [stored]
    assert stored_record["turns"][0]["ended"] == stored
    assert stored_record["turns"][0]["turn"] == {
        "player": 1,
        "observation": "Your card: K.",
        "legal_actions": ["call", "fold"],
        "information_state": "Kb",
        "episode": 2,
        "history": ["bet"],
        "task": "levels/7",
        "success": None,
    }
    assert record_of(stored_record) == record


def test_a_control_is_part_of_the_run_and_is_executed_again(tmp_path, capsys):
    run = ["eval", "scripted:random", "--env", PANEL.env_id, "--rows", "1", "--episodes", "2"]
    for name, options in {
        "plain": ["--memory", "reflexion"],
        "other": ["--memory", "reflexion", "--control", "other", "--from", str(tmp_path / "plain")],
        "none": ["--memory", "reflexion", "--control", "none"],
        "neutral": ["--memory", "reflexion", "--game-option", "style=neutral"],
    }.items():
        assert main([*run, *options, "--out", str(tmp_path / name)]) == 0
    memories = {name: Records(tmp_path / name).about["setting"]["options"]["memory"] for name in ("other", "none")}
    assert memories["none"] == "none/reflexion"
    assert memories["other"].startswith("other@")
    assert memories["other"].endswith("/reflexion")
    assert main(["verify", "--replay", str(tmp_path / "other")]) == 0
    assert main(["verify", "--replay", str(tmp_path / "neutral")]) == 0
    for name in ("other", "neutral"):
        assert main(["compare", str(tmp_path / "plain"), str(tmp_path / name)]) == 0
    # A policy reads no words, so it plays the same under other ones.
    paid = [
        [line["episodes"] for _, line in sorted(Records(tmp_path / name).lines.items())]
        for name in ("plain", "neutral")
    ]
    assert [[e["value"] for e in line] for line in paid[0]] == [[e["value"] for e in line] for line in paid[1]]
    capsys.readouterr()
    bad = {
        "requires --from RUN": ["--control", "other"],
        "--from requires --control other": ["--from", str(tmp_path / "plain")],
        "holds no run": ["--control", "other", "--from", str(tmp_path / "nowhere")],
        "was played with memory='reflexion', and this run has 'reflection'": [
            "--control",
            "other",
            "--from",
            str(tmp_path / "plain"),
        ],
        "--control frozen requires num_episodes of at least 2, got 1": ["--control", "frozen", "--episodes", "1"],
        "already has a control": ["--memory", "frozen/reflexion", "--control", "shuffled"],
        "unknown control 'frzen'. Did you mean 'frozen'?": ["--memory", "frzen/reflexion"],
        "no other deals with": ["--memory", "reflexion", "--control", "same", "--from", str(tmp_path / "plain")],
        "its source 000000000000 is not in the cache": ["--memory", f"other@{'0' * 32}/none"],
        "only the controls other and same name a source": ["--memory", "other@../../secret/none"],
    }
    for message, words in bad.items():
        assert main([*run, *words]) == 2
        assert message in capsys.readouterr().err


def test_the_same_opponent_with_other_deals(tmp_path):
    """The memory of another meta-episode with the same opponent, in the same seat, and never its own."""
    plain = Setting(replace(PANEL, rows_per_cell=3), "by hand", {"memory": "history", "num_episodes": 3})
    own_trajectories = play(plain, tmp_path / "run")
    entries = memories_of(tmp_path / "run", plain)
    same = play(apply_control(plain, "same", str(tmp_path / "run")))
    for trajectory in same:
        task = trajectory.task
        fitting = [
            entry
            for entry in entries
            if (entry["task"], entry["seat"]) == (task.opponent, task.seat) and entry["seed"] != task.seed
        ]
        assert len(fitting) == 2
        for episode, prompt in first_prompts(trajectory).items():
            assert any(entry["episodes"][episode]["text"] in prompt for entry in fitting)
            mine = next(
                entry["episodes"][episode]["text"]
                for entry in entries
                if (entry["task"], entry["seat"], entry["seed"]) == (task.opponent, task.seat, task.seed)
            )
            fitting_texts = [entry["episodes"][episode]["text"] for entry in fitting]
            assert not mine or mine in fitting_texts or mine not in prompt
    assert len(same) == len(own_trajectories) == 12


def test_a_specification_without_a_control_stands():
    assert parse_control("amem:bank=runs/a.json")[1] == "amem:bank=runs/a.json"
    assert parse_control("my.module:Mine")[1] == "my.module:Mine"
    assert sorted(CONTROLS) == ["frozen", "given", "none", "other", "same", "shuffled"]
