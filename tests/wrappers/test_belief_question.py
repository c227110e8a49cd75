"""`elicit`: one question between two episodes, of which no later prompt shows anything."""

from __future__ import annotations

import gymnasium as gym
import pytest

NAMES = ["pd/all-c", "pd/tit-for-tat", "pd/all-d"]
ANSWER = '<type>{"1": 0.25, "2": 0.75}</type>'
BELIEF = {"pd/all-c": 0.25, "pd/tit-for-tat": 0.75, "pd/all-d": 0.0}


def play_questions(answer=ANSWER, game="PrisonersDilemma", **options):
    """The chats of the play prompts, the infos of the questions, and the memory events, of a fixed way to play."""
    defaults = {"num_episodes": 3, "opponent": "pd/tit-for-tat", "memory": "both"}
    env = gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, **defaults | options)
    _, info = env.reset(seed=5)
    chats, questions, events, over = [], [], [], False
    while not over:
        if info["kind"] in ("belief", "guess"):
            questions.append(info)
            reply = answer
        elif info["phase"] == "reflect":
            chats.append(info["messages"])
            reply = f"<remark>note {info['episode_index']}</remark>"
        else:
            chats.append(info["messages"])
            reply = f"<action>{info['legal_actions'][len(chats) % 2]}</action>"
        _, _, over, _, info = env.step(reply)
        events += [
            memory_event
            for memory_event in info.get("memory_events", ())
            if memory_event["event"] in ("belief", "guess")
        ]
    return chats, questions, events


@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
@pytest.mark.parametrize("memory", ["none", "history", "both", "reflexion", "react"])
def test_the_prompts_of_play_and_memory_are_those_of_a_run_without_questions(memory, context):
    plain, none, _ = play_questions(memory=memory, context=context)
    asked_chats, questions, events = play_questions(memory=memory, context=context, elicit=NAMES)
    assert not none
    assert asked_chats == plain
    assert [question["episode_index"] for question in questions] == [1, 2]
    assert [question["probabilities"] for question in events] == [BELIEF] * 2
    assert {question["answer_tag"] for question in questions} == {"type"}


def test_the_question_shows_the_memory_of_the_next_episode():
    for memory, context, shows in (
        ("history", "rebuilt", True),
        ("history", "conversation", True),
        ("none", "rebuilt", False),
    ):
        _, questions, _ = play_questions(memory=memory, context=context, elicit=NAMES)
        text = "\n".join(message["content"] for message in questions[0]["messages"])
        assert ("Round 5: " in text) == shows
        assert text.count("The 5 rounds are over") == int(shows)
        assert "1. pd/all-c\n2. pd/tit-for-tat\n3. pd/all-d\n" in text
        assert "Episode 1 of 3 is over" in text


@pytest.mark.parametrize(
    ("answer", "expected_name"),
    [
        ("<type>3</type>", "pd/all-d"),
        ("I think <type> PD/all-C. </type>", "pd/all-c"),
        ("<type>4</type>", None),
        ("2", None),
        ("<type></type>", None),
    ],
)
def test_a_guess_is_a_number_or_a_name_in_the_tag(answer, expected_name):
    _, questions, events = play_questions(answer, elicit=NAMES, elicit_form="name")
    assert {question["kind"] for question in questions} == {"guess"}
    assert "like this: <type>1</type>" in questions[0]["messages"][-1]["content"]
    assert [guess_event["name"] for guess_event in events] == [expected_name] * 2


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('{"1": 0.25, "2": 0.75}', [0.25, 0.75, 0]),
        ('{"PD/all-c": 1}', [1, 0, 0]),
        ('  {"1. pd/all-c": 0.5,\n "3": 0.5}', [0.5, 0, 0.5]),
        ('{"1": 0.33, "2": 0.33, "3": 0.33}', [1 / 3] * 3),
        ('{"1": 5e-1, "2": 0.54}', [0.5 / 1.04, 0.54 / 1.04, 0]),
        ('{"1": 0, "2": 1, "3": 0}', [0, 1, 0]),
    ],
)
def test_probabilities_are_a_json_object(text, row):
    _, _, events = play_questions(f"Let me see. <type>{text}</type>", elicit=NAMES)
    assert [belief_event["probabilities"] for belief_event in events] == [
        pytest.approx(dict(zip(NAMES, row, strict=True)))
    ] * 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "null",
        "{}",
        "[]",
        '[["1", 1]]',
        '{"1": 0.5}',
        '{"1": 0.5, "2": 0.6}',
        '{"1": 50, "2": 50}',
        '{"1": "0.5", "2": 0.5}',
        '{"1": "50%", "2": "50%"}',
        '{"1": true}',
        '{"1": null, "2": 1}',
        '{"1": NaN, "2": 1}',
        '{"1": Infinity}',
        '{"1": 1e999}',
        '{"1": -0.5, "2": 1.5}',
        '{"1": -0.01, "2": 1.01}',
        '{"1": [1]}',
        '{"1": {"2": 1}}',
        '{"1": 0.5, "1": 0.5}',
        '{"1": 0.5, "pd/all-c": 0.5}',
        '{"4": 1}',
        '{"pd/grim": 0.5, "1": 0.5}',
        '{"": 1}',
        '{"1": 1} so it is',
        '{"1": 1',
        "{'1': 1}",
        '```json\n{"1": 1}\n```',
        '{"1": ' + "9" * 1500 + "}",
        "[" * 1900,
        '{"1":' * 380,
    ],
)
def test_other_answers_are_invalid(text):
    _, _, events = play_questions(f"<type>{text}</type>", elicit=NAMES)
    assert [belief_event["probabilities"] for belief_event in events] == [None] * 2


def test_probabilities_need_the_tag():
    _, _, events = play_questions('{"1": 1}', elicit=NAMES)
    assert [belief_event["probabilities"] for belief_event in events] == [None] * 2


def test_related_tasks_describe_their_opponents():
    names = ["encounters:kind", "encounters:greedy"]
    _, questions, events = play_questions(game="Encounters", opponent=names[0], elicit=names)
    text = questions[0]["messages"][-1]["content"]
    assert "How likely is it that each of these is true in all episodes?\n1. The other player" in text
    assert events[0]["probabilities"] == {names[0]: 0.25, names[1]: 0.75}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"elicit": ["pd/all-c"]}, "two or more different opponents"),
        ({"elicit": ["pd/all-c", "pd/all-c"]}, "two or more different opponents"),
        ({"elicit": NAMES, "style": "words"}, "Words has no words for the question"),
        ({"elicit": NAMES, "elicit_form": "number"}, "elicit_form"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        play_questions(**options)


def test_a_question_needs_opponents():
    with pytest.raises(ValueError, match="elicit needs a game with opponents"):
        gym.make("mage/Sokoban-Meta-v0", elicit=NAMES, disable_env_checker=True)
