"""`elicit`: one question between two episodes, of which no later prompt shows anything."""

from __future__ import annotations

import gymnasium as gym
import pytest

NAMES = ["pd/all-c", "pd/tit-for-tat", "pd/all-d"]
ANSWER = "<type>2</type>"


def played(answer=ANSWER, game="PrisonersDilemma", **options):
    """The chats of the play prompts, the infos of the questions, and the memory events, of a fixed way to play."""
    defaults = {"num_episodes": 3, "opponent": "pd/tit-for-tat", "memory": "both"}
    env = gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, **defaults | options)
    _, info = env.reset(seed=5)
    chats, questions, events, over = [], [], [], False
    while not over:
        if info["kind"] == "belief":
            questions.append(info)
            reply = answer
        elif info["phase"] == "reflect":
            chats.append(info["messages"])
            reply = f"<remark>note {info['episode_index']}</remark>"
        else:
            chats.append(info["messages"])
            reply = f"<action>{info['legal_actions'][len(chats) % 2]}</action>"
        _, _, over, _, info = env.step(reply)
        events += [one for one in info.get("memory_events", ()) if one["event"] == "belief"]
    return chats, questions, events


@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
@pytest.mark.parametrize("memory", ["none", "history", "both", "reflexion", "react"])
def test_the_prompts_of_play_and_memory_are_those_of_a_run_without_questions(memory, context):
    plain, none, _ = played(memory=memory, context=context)
    asked, questions, events = played(memory=memory, context=context, elicit=NAMES)
    assert not none
    assert asked == plain
    assert [one["episode_index"] for one in questions] == [1, 2]
    assert [one["named"] for one in events] == ["pd/tit-for-tat"] * 2
    assert {one["answer_tag"] for one in questions} == {"type"}


def test_the_question_shows_the_memory_of_the_next_episode():
    for memory, context, shows in (
        ("history", "rebuilt", True),
        ("history", "conversation", True),
        ("none", "rebuilt", False),
    ):
        _, questions, _ = played(memory=memory, context=context, elicit=NAMES)
        text = "\n".join(message["content"] for message in questions[0]["messages"])
        assert ("Round 5: " in text) == shows
        assert text.count("The 5 rounds are over") == int(shows)
        assert "1. pd/all-c\n2. pd/tit-for-tat\n3. pd/all-d\n" in text
        assert "Episode 1 of 3 is over" in text


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("<type>3</type>", "pd/all-d"),
        ("I think <type> PD/all-C. </type>", "pd/all-c"),
        ("<type>4</type>", None),
        ("2", None),
        ("<type></type>", None),
    ],
)
def test_an_answer_is_a_number_or_a_name_in_the_tag(answer, named):
    _, _, events = played(answer, elicit=NAMES)
    assert [one["named"] for one in events] == [named] * 2


def test_related_tasks_describe_their_opponents():
    names = ["encounters:kind", "encounters:greedy"]
    _, questions, events = played(game="Encounters", opponent=names[0], elicit=names)
    assert "Which of these is true in all episodes?\n1. The other player" in questions[0]["messages"][-1]["content"]
    assert events[0]["named"] == names[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"elicit": ["pd/all-c"]}, "two or more different opponents"),
        ({"elicit": ["pd/all-c", "pd/all-c"]}, "two or more different opponents"),
        ({"elicit": NAMES, "style": "words"}, "Words has no words for the question"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        played(**options)


def test_a_question_needs_opponents():
    with pytest.raises(ValueError, match="elicit needs a game with opponents"):
        gym.make("mage/Sokoban-Meta-v0", elicit=NAMES, disable_env_checker=True)
