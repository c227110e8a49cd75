"""ReAct and Reflexion: prompts, times of calls, stored texts."""

from __future__ import annotations

import pytest

from mage_envs.text.parser import Reply
from mage_envs.wrappers import as_memory
from tests.wrappers.memory_players import good, kinds, make, play

TTT = "mage/TicTacToe-Meta-v0"


def test_the_memory_of_react_is_always_empty():
    for options in ("react", "react:think_action=true"):
        env = make(TTT, memory=options, opponent="minimax")
        log = play(env)
        assert {row[1]["kind"] for row in log} == {"play"}
        assert not any("earlier episodes" in row[0] for row in log)
        assert env.memory.render(env.memory_view()) == ""


def test_react_shows_the_thoughts_of_the_running_episode_alone():
    env = make(TTT, memory="react", opponent="minimax", num_episodes=2)
    number = 0

    def answer(info):
        nonlocal number
        number += 1
        return f"<think>hidden</think>idea-{number}; <action>{info['legal_actions'][0]}</action> afterwards"

    log = play(env, answer)
    for at, (prompt, info, *_) in enumerate(log):
        same = [n + 1 for n in range(at) if log[n][1]["episode_index"] == info["episode_index"]]
        assert [n for n in range(1, 20) if f"You thought: idea-{n};" in prompt] == same
        assert "hidden" not in prompt
        assert "afterwards" not in prompt
        assert "Think in a few sentences first" in prompt


def test_the_oldest_thoughts_leave_first():
    env = make(TTT, memory="react:max_tokens=30", opponent="minimax", num_episodes=1)
    log = play(env, lambda info: f"{'ab ' * 15}c <action>{info['legal_actions'][0]}</action>")
    last_prompt = log[-1][0]
    assert len(log) >= 3
    assert last_prompt.count("You thought:") == 2  # 12 tokens each
    turns = last_prompt[last_prompt.index("# This episode so far") :].split("Turn ")[1:]
    assert ["You thought" in turn for turn in turns] == [False] * (len(turns) - 2) + [True, True]
    shorter = env.memory.shorten()
    assert shorter
    assert len([t for t in env.memory.thoughts(env.records[-1].turns) if t]) == 1


def test_a_thought_without_an_action_spends_a_call_and_no_turn_twice_in_a_row():
    env = make(TTT, memory="react:think_action=true", opponent="minimax", max_turns=4, num_episodes=1)
    prompt, info = env.reset(seed=0)
    board = info["anchor"]
    for count in (1, 2):
        prompt, reward, over, _, info = env.step(f"thought {count}")
        assert (info["thought"], info["invalid_reason"], info["penalty"], reward, over) == (True, None, 0.0, 0.0, False)
        assert (info["anchor"], len(env._episode.turns)) == (board, 0)
        assert f"# Your thoughts on this turn\n{chr(10).join(f'thought {n + 1}' for n in range(count))}" in prompt
        assert "Answer 1 of 4. Your thought was noted; nothing has changed, and no answer is spent." in prompt
    prompt, *_, info = env.step("thought 3")
    assert ("thought" in info, info["invalid_reason"], info["penalty"]) == (False, "invalid", 0.5)
    assert env._episode.turns[0].thought == "thought 1\nthought 2\nthought 3"
    prompt, *_, info = env.step("thought 4")
    assert info["thought"] is True  # the count restarts with each turn
    *_, info = env.step(f"done <action>{info['legal_actions'][0]}</action>")
    assert env._episode.turns[1].thought == "thought 4\ndone"


@pytest.mark.parametrize("reply", ["", Reply("I think", 9, 9, truncated=True), "<think>only reasoning"])
def test_what_says_nothing_is_no_thought(reply):
    env = make(TTT, memory="react:think_action=true", opponent="minimax")
    env.reset(seed=0)
    info = env.step(reply)[4]
    assert "thought" not in info
    assert info["invalid_reason"] is not None


def test_without_think_action_a_thought_alone_spends_a_turn():
    env = make(TTT, memory="react", opponent="minimax")
    env.reset(seed=0)
    assert env.step("only a thought")[4]["invalid_reason"] == "invalid"
    assert len(env._episode.turns) == 1


def test_thoughts_work_in_a_conversation():
    env = make(TTT, memory="react:think_action=true", opponent="minimax", context="conversation")
    env.reset(seed=0)
    prompt, *_, info = env.step("Hm, the corner.")
    assert prompt.startswith("# Now\nEpisode 1 of 3. Answer 1 of 8. Your thought was noted; nothing has changed")
    assert [message["content"] for message in info["messages"]][1] == "Hm, the corner."


# -- Reflexion ---------------------------------------------------------------------------------------------------


def outcomes(log):
    """Per episode, whether it succeeded and whether a reflection came right after it."""
    pairs = []
    for row, following in zip(log, [*log[1:], None]):
        if row[4]["episode_end"]:
            pairs.append((row[4]["success"], following is not None and following[1]["kind"] == "reflect"))
    return pairs


def test_reflexion_asks_after_failures_and_never_after_the_last_episode():
    successes = set()
    for seed in range(12):
        pairs = outcomes(play(make(memory="reflexion", opponent="kuhn/caller", num_episodes=4), seed=seed))
        assert [reflects for _, reflects in pairs[:-1]] == [not success for success, _ in pairs[:-1]]
        assert pairs[-1][1] is False
        successes |= {success for success, _ in pairs[:-1]}
    assert successes == {True, False}
    pairs = outcomes(play(make(memory="reflexion:reflect_on=always", opponent="kuhn/caller", num_episodes=4), seed=1))
    assert [reflects for _, reflects in pairs] == [True, True, True, False]


def test_a_draw_fails_and_a_score_can_be_what_counts():
    def asks(options):
        env = make(TTT, memory=options, opponent="minimax", num_episodes=2)
        policy = as_minimax()
        log = play(env, policy)
        assert [record.value for record in env.records] == [0.0, 0.0]
        return [kind for kind, _ in kinds(log)].count("reflect")

    assert asks("reflexion") == 1
    assert asks("reflexion:failure_if=score<0.5") == 1
    assert asks("reflexion:failure_if=score<0") == 0
    assert asks("reflexion:failure_if=score<-1") == 0


def as_minimax():
    """Plays perfectly, hence draws."""
    from mage_envs import Turn
    from mage_envs.games.tictactoe import TicTacToe
    from mage_envs.opponents import make_opponent
    from mage_envs.random.streams import Streams

    policy = make_opponent("minimax", TicTacToe())

    def answer(info):
        if info["kind"] != "play":
            return good(info)
        turn = Turn.from_info(info, info["anchor"], episode=0)
        policy.reset(Streams(1, 0, 0).at(7, 0, 0).generator())
        return f"<action>{policy.act(turn)}</action>"

    return answer


def test_the_fourth_reflection_evicts_the_first():
    env = make(memory="reflexion:reflect_on=always", num_episodes=6, opponent="kuhn/nash")
    number = 0

    def answer(info):
        nonlocal number
        number += info["kind"] == "reflect"
        return good(info, f"lesson-{number}.")

    log = play(env, answer)
    last_prompt = log[-1][0]
    assert [n for n in range(1, 6) if f"learnt lesson-{n}." in last_prompt] == [3, 4, 5]
    for numbered in ("1. after episode 3: ", "2. after episode 4: ", "3. after episode 5: "):
        assert numbered in last_prompt
    evicted = [event for row in log for event in row[4].get("memory_events", ()) if event["event"] == "evicted"]
    assert [event["episode"] for event in evicted] == [0, 1]
    reflect_prompts = [row[0] for row in log if row[1]["kind"] == "reflect"]
    assert "# Your earlier plans\n1. learnt lesson-2.\n2. learnt lesson-3.\n3. learnt lesson-4." in reflect_prompts[-1]
    assert "Status: " not in reflect_prompts[0]
    assert reflect_prompts[0].count("\nResult: ") == 1
    assert "Score: " not in reflect_prompts[0], "the sentence on the end states the score, for every memory alike"


def test_a_reflection_without_its_tag_is_kept_whole():
    env = make(memory="reflexion:reflect_on=always", opponent="kuhn/nash", num_episodes=2)

    def answer(info):
        return good(info) if info["kind"] == "play" else "<think>why</think> Just bet more."

    log = play(env, answer)
    [bad] = [row[4] for row in log if row[1]["kind"] == "reflect"]
    assert bad["invalid_reason"] == "invalid"
    assert {"event": "parse_failure", "kind": "reflect", "reason": "invalid"} in bad["memory_events"]
    assert "1. after episode 1: Just bet more." in log[-1][0]


def test_a_success_leaves_the_buffer_as_it_is():
    memory = as_memory("reflexion")
    memory.begin()
    env = make(memory=lambda: memory, opponent="kuhn/caller", num_episodes=5)
    for seed in range(10):
        log = play(env, seed=seed)
        failed = sum(not success for success, _ in outcomes(log)[:-1])
        assert len(memory._reflections) == min(failed, 3)


def test_the_text_has_a_cap_and_whole_reflections_leave_the_oldest_first():
    env = make(memory="reflexion:reflect_on=always,max_tokens=80", opponent="kuhn/nash", num_episodes=4)
    log = play(env, lambda info: good(info, f"{'long ' * 20}{info['episode_index']}"))
    plan_text = log[-1][0].split("# Plans that you made for the next attempt")[1].split("# ")[0]
    assert plan_text.count("after episode") == 2
    assert "after episode 3" in plan_text
    assert any(e == {"event": "left_out", "items": 1} for row in log for e in row[4].get("memory_events", ()))
