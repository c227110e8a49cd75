"""A-MEM and Memento: notes are stored, linked, revised and retrieved; bad answers are harmless; banks are files."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from mage_envs.core import GameSpec, Turn
from mage_envs.text.prompts import Frame
from mage_envs.wrappers import MemoryView, Request, as_memory
from mage_envs.wrappers.baselines.amem import GENERIC, AMem, Note, read_object, texts_of
from mage_envs.wrappers.baselines.baseline import trace
from mage_envs.wrappers.baselines.memento import FEATURES, Case, CaseValues, Memento, MementoQ, features
from mage_envs.wrappers.baselines.memory_bank import bank_text
from mage_envs.wrappers.memory import Answer
from tests.wrappers.memory_players import good, kinds, make, play

SOKOBAN = "mage/Sokoban-Meta-v0"


def retrieval_events(log):
    return [e for row in log for e in row[4].get("memory_events", ()) if e["event"] == "retrieved"]


# -- A-MEM -------------------------------------------------------------------------------------------------------


def test_amem_asks_once_for_the_first_note_then_twice_and_not_after_the_last_episode():
    log = play(make(memory="amem", opponent="kuhn/nash", num_episodes=4))
    assert [kind for kind, _ in kinds(log)] == ["play", "note", "play", "note", "link", "play", "note", "link", "play"]
    assert [e["ids"] for e in retrieval_events(log)] == [
        [0],
        *[sorted(e["ids"]) for e in []],
        *[e["ids"] for e in retrieval_events(log)[1:]],
    ]
    assert sorted(retrieval_events(log)[-1]["ids"]) == [0, 1, 2]
    assert retrieval_events(log)[-1]["encoder"] == "hash"


def test_a_query_may_be_asked_for():
    env = make(memory="amem:query_llm=true", opponent="kuhn/nash", num_episodes=3)
    log = play(env)
    assert [kind for kind, _ in kinds(log)][1:5] == ["note", "query", "play", "note"]


def test_a_note_per_turn_is_an_option():
    env = make("mage/TicTacToe-Meta-v0", memory="amem:granularity=turn", opponent="minimax", num_episodes=2)
    log = play(env)
    plays = sum(row[1]["kind"] == "play" for row in log)
    assert len(env.memory.notes) == plays - 1  # none after the very last turn
    assert env.memory.notes[0].content.startswith("Task: Tic-Tac-Toe on a 3x3 board.\nSeen: ")
    assert "Thought: I think w." in env.memory.notes[0].content


def test_the_neighbours_that_were_retrieved_are_revised_not_the_oldest():
    """Notes on two tasks: the newest note's neighbour is the one of its own task, in any order of storage."""
    memory = AMem(k_write=1)
    memory.begin()
    about = ["red hats in the shop", "chess openings with knights", "red hats in the shop, again"]
    for at, content in enumerate(about):
        memory._new = Note(id=at, time=at, content=content)
        request = memory._take_note(view_at("x"), {"keywords": [], "context": content, "tags": []})
        if request is not None and at == 1:
            memory._take_links({})
        elif request is not None:
            assert "1. [episode 1] red hats in the shop\n" in request.text
            change = {"label": 1, "context": "hats are often asked for", "tags": ["hats"]}
            memory._take_links({"links": [1], "tags": ["shop"], "update": [change]})
        memory._close()
    assert [note.context for note in memory.notes] == ["hats are often asked for", about[1], about[2]]
    assert [note.tags for note in memory.notes] == [("hats",), (), ("shop",)]
    assert [note.links for note in memory.notes] == [(), (), (0,)]
    assert "often asked" in memory.notes[0].encoded  # a revised note is encoded again at once


LINKED = {
    "links": ["1", 1, 2, 2.0, True, None, 99, -1, "x", [1]],
    "tags": "no list",
    "update": [
        {"label": 7, "context": "c"},
        {"label": "2", "context": ["no text"], "tags": [3, "kept", "kept"]},
        "x",
        None,
        {"context": "no label"},
        {"label": 1},
    ],
}


def test_wrong_labels_lengths_and_types_count_for_nothing():
    memory = AMem()
    memory.begin()
    for at in range(2):
        memory._bank.items.append(Note(id=at, time=at, content=f"note {at}", context=f"c{at}", tags=("t",)))
    memory._new = Note(id=2, time=2, content="note 2")
    memory._take_note(view_at("x"), {"keywords": "abc", "context": 3, "tags": ["a", "a", 5]})
    assert memory._new.keywords == ()
    assert (memory._new.context, memory._new.tags) == (GENERIC, ("a",))
    memory._take_links(LINKED)
    assert len(memory.notes) == 3
    assert set(memory.notes[2].links) == {0, 1}
    assert len(memory.notes[2].links) == 2
    first_note, second_note = (memory.notes[at] for at in memory._labels[:2])
    assert (first_note.context, first_note.tags) == (f"c{first_note.id}", ("t",))
    assert (second_note.context, second_note.tags) == (f"c{second_note.id}", ("kept",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Here it is:\n```json\n{"a": [1, 2]}\n```', {"a": [1, 2]}),
        ('{"a": 1', None),
        ("[1, 2]", None),
        ("} {", None),
        ("", None),
        ("{" * 100_000 + "}" * 100_000, None),
        ('{"a": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}", None),  # Python 3.14 reads 50,000
    ],
)
def test_objects_are_found_and_nothing_raises(text, expected):
    assert read_object(text) == expected
    assert texts_of([1, " a ", "a", "", None, "b"]) == ("a", "b")


def test_long_json_arrives_whole():
    env = make(memory="amem", opponent="kuhn/nash", num_episodes=2)
    long = {"keywords": ["k"] * 3, "context": "short", "tags": ["x" * 400, "y" * 400, "z" * 400] * 5, "end": "here"}
    assert len(json.dumps(long)) > 5000
    play(env, lambda info: json.dumps(long) if info["kind"] == "note" else good(info))
    assert [note.context for note in env.memory.notes] == ["short"]


def make_linked_memory(count, k_read, links):
    memory = AMem(k_read=k_read, max_tokens=100_000)
    memory.begin()
    memory._bank.items += [Note(id=at, time=at, content=f"word{at}", links=links.get(at, ())) for at in range(count)]
    return memory


def test_linked_notes_come_along_each_once_and_within_k_read():
    def ids(memory, query):
        return [note.id for note in memory._read(query)]

    plain = make_linked_memory(12, 3, {})
    assert ids(plain, "word5")[0] == 5
    assert len(ids(plain, "word5")) == 3
    linked = make_linked_memory(12, 3, {5: (1, 2), 1: (5,)})
    assert ids(linked, "word5") == [5, 1, 2]  # they do not vanish although three hits exist
    assert ids(make_linked_memory(12, 3, {5: (1, 1, 5)}), "word5")[:2] == [5, 1]
    everything = ids(make_linked_memory(4, 10, {0: (3,), 3: (0,)}), "word0")
    assert sorted(everything) == [0, 1, 2, 3]


def view_at(observation, rules="A game. More."):
    turn = Turn(0, observation, (), observation)
    env = make()
    frame = Frame(GameSpec(name="Game", rules=rules), num_episodes=3)
    return MemoryView(frame=frame, records=[], style=env.style, continuing=False, window=7, turn=turn)


def test_the_query_is_the_task_and_the_current_observation():
    memory = make_linked_memory(0, 1, {})
    memory._bank.items += [
        Note(id=0, time=0, content="a red lamp on a table"),
        Note(id=1, time=1, content="a green hat on a shelf"),
    ]
    assert "red lamp" in memory.render(view_at("You see a red lamp."))
    assert "green hat" in memory.render(view_at("You see a green hat."))


def test_the_lowest_ranked_notes_leave_first_and_whole():
    memory = AMem(max_tokens=40)
    memory.begin()
    memory._bank.items += [Note(id=at, time=at, content=f"word{at} " * 10) for at in range(3)]
    prompt = memory.render(view_at("word1"))
    assert prompt.count("[episode") == 1
    assert "word1" in prompt
    assert memory.shorten()
    assert memory.render(view_at("word1")) == ""
    assert not memory.shorten()


# -- Memento -----------------------------------------------------------------------------------------------------


def test_memento_plans_before_each_episode_the_first_included():
    env = make(memory="memento", opponent="kuhn/caller", num_episodes=7)
    log = play(env)
    assert [kind for kind, _ in kinds(log)] == ["plan", "play"] * 7
    assert [episode for kind, episode in kinds(log) if kind == "plan"] == list(range(7))
    assert "# Your plan for this episode\n1. try w\n2. look" in log[-1][0]
    plan_prompts = [row[0] for row in log if row[1]["kind"] == "plan"]
    assert "cases" not in plan_prompts[0]
    for plan_prompt in plan_prompts:
        assert plan_prompt.count("Plan: 1. try w") <= 4
    assert plan_prompts[-1].count("Plan: 1. try w") == 4
    successes = [case.success for case in env.memory.cases]
    assert True in successes
    assert False in successes
    mixed_prompt = next(text for text in plan_prompts if "Earlier successes" in text and "Other earlier cases" in text)
    assert (
        mixed_prompt.index("# Earlier successes")
        < mixed_prompt.index("Result: a success")
        < mixed_prompt.index("# Other earlier cases")
    )
    assert mixed_prompt.index("# Other earlier cases") < mixed_prompt.index("Result: a failure")


def test_equal_cases_are_ordered_the_newest_first():
    env = make(SOKOBAN, memory="memento", num_episodes=7, max_turns=1)
    log = play(env)
    assert [e["ids"] for e in retrieval_events(log)] == [[*range(n - 1, max(n - 5, -1), -1)] for n in range(1, 7)]
    assert all(score == 1 for e in retrieval_events(log) for score in e["scores"])


def test_the_plan_is_what_the_play_prompt_shows_and_cases_on_request():
    for options, cases in (("memento", False), ("memento:show_cases=true", True)):
        log = play(make(SOKOBAN, memory=options, num_episodes=3, max_turns=1))
        last_prompt = log[-1][0]
        assert "1. try w\n2. look" in last_prompt
        assert ("Case of episode 1: " in last_prompt) is cases


@pytest.mark.parametrize(
    ("reply", "plan", "failed"),
    [
        ("<remark>1. a\n2) b\n3. c</remark>", "1. a\n2. b\n3. c", False),
        ("<remark>Just go.</remark>", "Just go.", True),
        ("First: 1. is no step\nx" + "y" * 3000, ("First: 1. is no step\nx" + "y" * 3000)[:1000], True),
        ("", "", True),
    ],
)
def test_a_plan_is_a_numbered_list_or_the_first_thousand_characters(reply, plan, failed):
    env = make(memory="memento", opponent="kuhn/nash", num_episodes=1)
    env.reset(seed=0)
    play_prompt, *_, info = env.step(reply)
    assert env.memory._plan == plan
    assert plan in play_prompt
    assert any(e["event"] == "parse_failure" for e in info.get("memory_events", ())) is failed


def test_memento_trace_needs_no_call_and_shows_the_actions():
    env = make(SOKOBAN, memory="memento_trace", num_episodes=3, max_turns=2)
    log = play(env)
    assert {row[1]["kind"] for row in log} == {"play"}
    moves = [turn.action for turn in env.records[1].turns]
    assert f"Plan: {'; '.join(moves)}" in log[-1][0]
    assert "# Cases from earlier episodes\nCase of episode 2: " in log[-1][0]


def test_no_bank_but_the_own_is_kept_between_meta_episodes():
    for name in ("amem", "memento", "memento_trace", "reflexion"):
        env = make(memory=name, opponent="kuhn/nash")
        first_log = play(env, seed=1)
        play(env, lambda info: good(info, "other"), seed=2)
        assert play(env, seed=1) == first_log


# -- banks -------------------------------------------------------------------------------------------------------


def fill_bank(name, tmp_path, seeds=range(6), env_id=SOKOBAN, **options):
    """A bank made by playing, in a file; and the strategy that filled it."""
    env = make(env_id, memory=f"{name}:scope=fill", num_episodes=2, **options)
    for seed in seeds:
        play(env, seed=seed)
    path = tmp_path / f"{name}.json"
    path.write_text(env.memory.bank_text())
    return path, env.memory


@pytest.mark.parametrize("name", ["amem", "memento", "memento_trace"])
def test_a_bank_is_read_only_and_results_do_not_depend_on_the_order(name, tmp_path):
    path, _ = fill_bank(name, tmp_path, max_turns=2)
    spec = f"{name}:scope=run,bank={path}"
    env = make(SOKOBAN, memory=spec, num_episodes=2, max_turns=2)
    num_before = len(env.memory._bank.items)
    assert num_before == 12
    forwards = {seed: play(env, seed=seed) for seed in (20, 21, 22)}
    assert len(env.memory._bank.items) == num_before
    assert "note" not in {row[1]["kind"] for row in forwards[20]}
    fresh_env = make(SOKOBAN, memory=spec, num_episodes=2, max_turns=2)
    assert {seed: play(fresh_env, seed=seed) for seed in (22, 20, 21)} == forwards
    assert as_memory(spec)._bank.items == env.memory._bank.items


def test_what_did_not_come_to_its_end_is_not_stored():
    env = make(SOKOBAN, memory="memento:scope=fill", num_episodes=2, max_turns=1)
    play(env, seed=0)
    assert len(env.memory.cases) == 2
    _, info = env.reset(seed=1)
    for _ in range(3):
        *_, info = env.step(good(info))
    assert len(env.memory.cases) == 3
    play(env, seed=2)
    assert len(env.memory.cases) == 4
    assert [case.episode for case in env.memory.cases] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("try w", "try v", 1), "does not match its sha256"),
        (lambda text: text[:-40], "is not a valid memory bank"),
        (lambda text: "[]", "is not a valid memory bank"),
        (lambda text: text.replace('"schema": 1', '"schema": 9'), "has schema 9; this version reads 1"),
    ],
)
def test_a_damaged_bank_is_refused_in_one_line(change, says, tmp_path):
    path, _ = fill_bank("memento", tmp_path, range(1), max_turns=1)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=says):
        as_memory(f"memento:scope=run,bank={path}")


def test_a_bank_of_another_strategy_or_none_is_refused(tmp_path):
    path, _ = fill_bank("memento", tmp_path, range(1), max_turns=1)
    with pytest.raises(ValueError, match="is a bank of memory=memento, not of amem"):
        as_memory(f"amem:scope=run,bank={path}")
    with pytest.raises(FileNotFoundError):
        as_memory(f"amem:scope=run,bank={tmp_path / 'none.json'}")


def test_memento_q_learns_from_the_cases_that_were_read(tmp_path):
    path, memory = fill_bank("memento_q", tmp_path, range(40), env_id="mage/KuhnPoker-Meta-v0", opponent="kuhn/caller")
    content = json.loads(path.read_text())
    assert content["features"] == list(FEATURES)
    assert content["rows"] == len(memory._rows) > 100
    assert any(content["values"])
    frozen = MementoQ(bank=str(path))
    frozen.begin()
    best = [chance for _, chance in frozen._read(frozen.cases[0].state)]
    assert best == sorted(best, reverse=True)
    assert len(best) == 4
    everything = MementoQ(k=200, bank=str(path))
    assert best == [chance for _, chance in everything._read(frozen.cases[0].state)][:4]


def test_case_values_find_what_leads_to_success():
    """Rows drawn from known weights; the fit's gradient is 0, and likely cases come before unlikely ones."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(20_000):
        same, succeeded, age = bool(rng.integers(2)), bool(rng.integers(2)), int(rng.integers(1, 9))
        row = features(rng.random(), succeeded, same_task=same, age=age)
        chance = 1 / (1 + np.exp(-(np.array(row) @ [-2.0, 2.0, 1.5, 0.0, 0.0])))
        rows.append((row, bool(rng.random() < chance)))
    values = CaseValues.learn(rows)
    assert np.allclose(values.weights, [-2, 2, 1.5, 0, 0], atol=0.2)
    x, y = np.array([row for row, _ in rows]), np.array([float(s) for _, s in rows])
    slope = x.T @ (y - np.array([values.chance(row) for row in x])) - np.array(values.weights)
    assert np.abs(slope).max() < 1e-6
    assert CaseValues.learn([]).chance(features(1, True, same_task=True, age=1)) == 0.5
    separable = CaseValues.learn([(features(1, True, same_task=True, age=1), True)] * 50)
    assert np.isfinite(separable.weights).all()
    with pytest.raises(ValueError, match="holds 2 weights for 5 features"):
        CaseValues.of([1, 2])


def test_a_trace_is_shortened_in_the_middle():
    env = make("mage/TicTacToe-Meta-v0", opponent="minimax", num_episodes=1, memory="none", max_turns=8)
    play(env, lambda info: "<action>no</action>")
    turns = env.records[0].turns
    assert len(turns) == 8
    full_trace = trace(turns, 100_000)
    assert [int(n) for n in re.findall(r"^(\d+)\. Seen", full_trace, re.MULTILINE)] == list(range(1, 9))
    short = trace(turns, len(full_trace) // 2 + 1)
    numbers = [int(n) for n in re.findall(r"^(\d+)\. Seen", short, re.MULTILINE)]
    assert numbers == [1, 2, 7, 8]
    assert "(turns left out here: 4)" in short
    assert trace(turns, 1) == "(turns left out here: 8)"


def test_a_cut_answer_counts_as_unread():
    memory = Memento()
    memory.begin()
    memory._bank.items.append(Case(id=0, state="s", plan="p", success=True, score="1", episode=0))
    memory.on_answer(Request("plan", "?"), Answer("1. go\n2. on", True, "length"), view_at("x"))
    assert [event["reason"] for event in memory.events()] == ["length"]
    assert memory._plan == "1. go\n2. on"


def test_a_bank_has_the_same_bytes_in_any_order_of_its_keys():
    items = [{"b": 1, "a": 2}]
    assert bank_text("memento", items, encoder="hash", q=1) == bank_text(
        "memento", [{"a": 2, "b": 1}], q=1, encoder="hash"
    )
