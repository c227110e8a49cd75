"""The grammar of names with arguments: the resulting calls, and one line for each mistake."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage_envs.loading.arguments import Rest, Spec, SpecError, bind, call, lacks_arguments, parse


def plain(
    game: str, count: int = 3, share: float | None = None, loud: bool = False, word: str = "x"
) -> tuple[Any, ...]:
    return game, count, share, loud, word


def nothing() -> str:
    return "nothing"


def several(game: str, word: str, *further: int) -> tuple[Any, ...]:
    return game, word, further


def with_keywords(endpoint: str, /, *, limit: int, word: str | None = None) -> tuple[Any, ...]:
    return endpoint, limit, word


def rest(game: str, count: int, folder: Rest) -> tuple[Any, ...]:
    return game, count, folder


def optional(folder: Rest | None = None) -> str | None:
    return folder


BUILDERS = {
    "plain": plain,
    "nothing": nothing,
    "several": several,
    "named": with_keywords,
    "rest": rest,
    "optional": optional,
}
FIRST = {"plain": ("game",), "several": ("game",), "rest": ("game",)}


def call_text(text: str) -> Any:
    spec = parse(text, BUILDERS.__contains__)
    return call(repr(text), spec, BUILDERS[spec.name], *FIRST.get(spec.name, ()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ("game", 3, None, False, "x")),
        ("plain:7", ("game", 7, None, False, "x")),
        ("plain:7,.5,on,a b", ("game", 7, 0.5, True, "a b")),
        ("plain:7, loud=TRUE , word=a=b", ("game", 7, None, True, "a=b")),
        ("plain:word=off,loud=off,share=1e-3", ("game", 3, 0.001, False, "off")),
        # A text may be the name of a parameter.
        ("plain:1,2,on,word", ("game", 1, 2.0, True, "word")),
        ("plain:1,2,on,a/b=c", ("game", 1, 2.0, True, "a/b=c")),
        ("nothing", "nothing"),
        ("several:a", ("game", "a", ())),
        ("several:a,1,2", ("game", "a", (1, 2))),
        ("several:key=a", ("game", "key=a", ())),
        ("named:m@http://host:1/v1?a=b,limit=2", ("m@http://host:1/v1?a=b", 2, None)),
        ("rest:4,a,b=c:d,", ("game", 4, "a,b=c:d,")),
        ("optional", None),
        ("optional:folder", "folder"),
        ("optional:a:b,c", "a:b,c"),
    ],
)
def test_a_specification_is_a_call(text: str, expected: Any) -> None:
    assert call_text(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("plain:many", "'plain:many': count must be a whole number, got 'many'."),
        ("plain:share=nan", "'plain:share=nan': share must be a number, got 'nan'."),
        ("plain:loud=yes", "'plain:loud=yes': loud must be true or false, got 'yes'."),
        ("plain:", "'plain:' has an empty argument. Complete it, or remove the ':' or ',' before it."),
        ("plain:1,,2", "'plain:1,,2' has an empty argument. Complete it, or remove the ':' or ',' before it."),
        (
            "plain:cuont=1",
            "'plain:cuont=1': there is no option 'cuont'. Did you mean 'count'? Options: count, share, loud, word.",
        ),
        ("plain:count", "'plain:count': count needs a value, as in 'count=3'."),
        ("plain:share", "'plain:share': share needs a value, as in 'share=...'."),
        ("plain:word=a,loud", "'plain:word=a,loud': loud needs a value, as in 'loud=False'."),
        ("named:m,limit", "'named:m,limit': limit needs a value, as in 'limit=...'."),
        ("plain:count=1,count=2", "'plain:count=1,count=2': count is given twice."),
        ("plain:1,count=2", "'plain:1,count=2': count is given twice."),
        ("plain:count=1,zz", "'plain:count=1,zz': there is no option 'zz'. Options: count, share, loud, word."),
        ("plain:1,2,on,a,b", "'plain:1,2,on,a,b' takes at most 4 (count, share, loud, word) after the colon, got 5."),
        ("nothing:1,2", "'nothing:1,2' takes no arguments after the colon, got 2."),
        ("several", "'several' needs word. Add arguments after a colon, as in 'several:word'."),
        ("named:m", "'named:m' needs limit. Add arguments after a colon, as in 'named:limit'."),
        ("named:m,x=1", "'named:m,x=1': there is no option 'x'. Options: limit, word."),
        ("rest:3", "'rest:3' needs folder. Add arguments after a colon, as in 'rest:folder'."),
    ],
)
def test_a_mistake_is_one_line(text: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        call_text(text)
    assert str(caught.value) == says


def test_a_class_of_a_module_has_its_arguments_after_a_second_colon() -> None:
    is_registered = {"mcts", "my_games"}.__contains__
    assert parse("mcts:1000", is_registered) == Spec("mcts", "1000")
    assert parse("my_games:Cycle", is_registered) == Spec("my_games", "Cycle")
    assert parse("a.b:Cycle", is_registered) == Spec("a.b:Cycle")
    assert parse("a.b:Cycle:2,x=3", is_registered) == Spec("a.b:Cycle", "2,x=3")
    # Neither is the name of a module with a class.
    assert parse("a/b:Cycle", is_registered) == Spec("a/b", "Cycle")
    assert parse("mtcs:1000", is_registered) == Spec("mtcs", "1000")


def test_a_partial_has_no_options_for_its_own_keywords() -> None:
    bound_call = partial(plain, "game", count=9)
    assert call("x", Spec("x"), bound_call) == ("game", 9, None, False, "x")
    assert call("x", Spec("x", "word=w"), bound_call) == ("game", 9, None, False, "w")
    with pytest.raises(SpecError, match="there is no option 'count'"):
        call("x", Spec("x", "count=1"), bound_call)


def test_annotations_may_be_classes_and_texts() -> None:
    # Without `from __future__ import annotations` in the module of a builder, annotations are objects.
    def build(count, folder): ...

    build.__annotations__ = {"count": int, "folder": Rest | None}
    assert bind("x", Spec("x", "1,a,b"), build).arguments == {"count": 1, "folder": "a,b"}


def test_missing_arguments_are_counted() -> None:
    assert lacks_arguments(parse("rest:3"), rest, skip=1)
    assert not lacks_arguments(parse("rest:3,a"), rest, skip=1)
    assert not lacks_arguments(parse("plain"), plain, skip=1)


@given(st.sampled_from(sorted(BUILDERS)), st.text(st.sampled_from(":,=/ ab1.-+@é\n") | st.characters(), max_size=20))
def test_any_text_is_a_call_or_the_error_of_the_grammar(name: str, text: str) -> None:
    for specification in (name + text, f"{name}:{text}", text):
        spec = parse(specification, BUILDERS.__contains__)
        with suppress(SpecError):
            bind("x", spec, BUILDERS[name], *FIRST.get(name, ()))


@given(
    st.sampled_from(sorted(BUILDERS)),
    st.lists(st.sampled_from(["count=1", "count", "limit=2", "word=w", "1", "a", "", "folder=x", "first=1", "x=1"])),
)
def test_any_list_of_arguments_is_a_call_or_the_error_of_the_grammar(name: str, texts: list[str]) -> None:
    with suppress(SpecError):
        call_text(f"{name}:{','.join(texts)}")
