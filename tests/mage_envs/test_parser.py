import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage_envs.text.parser import Reply, parse_tag
from mage_envs.text.thoughts import MARKERS, after_thoughts


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<action>bet</action>", "bet"),
        ("I think <ACTION> bet </Action> so", "bet"),
        ("<action>check</action> no, <action>bet</action>", "bet"),
        ("<action>a<action>b</action>", "b"),
        ("<action>bet</action></action>", "bet"),
        ("<action>bet</action> so </action>", "bet"),
        ("<action><action>bet</action></action>", "bet"),
        ("<action>call</action> or <action>bet</action> is </action> it", "bet"),
        ("<action>bet</action><action>che", "bet"),
        ("<think><action>fold</action></think><action>call</action>", "call"),
        ("<think><action>fold</action></think>call", None),
        ("<think>a</think><action>x</action></think><action>y</action>", "y"),
        ("<action>x</action></think>", None),
        ("<think>never closed <action>bet</action>", None),
        ("<action>bet</action><think>doubt <action>call</action>", "bet"),
        ("I bet.", None),
        ("<action>bet", None),
        ("bet</action>", None),
        ("</action>bet<action>", None),
        ("<action>\nbet\n</action>", "bet"),
        ("<action></action>", ""),
        ("", None),
        ("<remark>bet</remark>", None),
        ("<actıon>bet</actıon>", None),
        # The lower case of the first letter has two characters, so that places would move.
        ("İİ <ACTION>İ</Action>", "İ"),
        # Its lower case is a plain "k".
        ("<action>x</action></thin\u212a>", "x"),
        ("\ud83d <ACTION>\ude00</action>", "\ude00"),
    ],
)
def test_strict_tags(reply, action):
    assert parse_tag(reply, "action") == action


@pytest.mark.parametrize("markers", MARKERS)
def test_every_family_of_markers(markers: tuple[str, str]) -> None:
    start, end = markers
    for begin, close in ((start, end), (start.upper(), end.upper())):
        assert parse_tag(f"{begin}\n<action>fold</action>?{close}\n<action>call</action>", "action") == "call"
        assert parse_tag(f"<action>fold</action>?{close}<action>call</action>", "action") == "call"
        assert parse_tag(f"{begin}<action>fold</action>?", "action") is None
        assert parse_tag(f"{begin}<action>fold</action>?{close} I pass.", "action") is None
        assert parse_tag(f"{begin}fold?{close} call", None) == "call"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Here is my thought process: <action>a</action> Here is my response: <action>b</action>", "b"),
        ("Here's my thought process:\n<action>a</action>\n\nHere's my response:\n<action>b</action>", "b"),
        ("Here is my thought process: <action>a</action>", None),
        ("I say: here is my thought process: <action>a</action>", "a"),
        ("analysisWe hold <action>a</action>.assistantfinal<action>b</action>", "b"),
        ("analysisWe hold <action>a</action>.", None),
        ("analysis: <action>a</action>", "a"),
    ],
)
def test_thoughts_that_begin_with_words(reply: str, action: str | None) -> None:
    assert parse_tag(reply, "action") == action


def test_the_answer_tag_marks_no_thought() -> None:
    assert parse_tag("<think>a</think><reasoning>b</reasoning>", "reasoning") == "b"
    assert parse_tag("<thought>plan</thought>", "Thought") == "plan"


def test_bare_answers():
    assert parse_tag(" bet ", None) == "bet"
    assert parse_tag(" ", None) is None


@given(st.text(), st.text(alphabet="<>/acthinko ", max_size=200))
def test_any_text_parses(first_text, second_text):
    for text in (first_text, second_text, f"<action>{first_text}</action>{second_text}"):
        parse_tag(text, "action")
        assert "</think>" not in after_thoughts(text).lower()


def test_a_megabyte_of_tags_is_read_in_linear_time():
    assert parse_tag("<action>" * 125_000 + "bet</action>", "action") == "bet"
    assert parse_tag("</action>" * 125_000, "action") is None


def test_reply_is_text_with_what_its_generator_knows():
    reply = Reply("x", tokens=3, limit=4, truncated=True)
    assert (reply, reply.tokens, reply.limit, reply.truncated, reply.overflow) == ("x", 3, 4, True, False)
