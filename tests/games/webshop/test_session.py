"""Transitions of actions: the original's transitions, and the differences in reading them."""

from copy import copy

import pytest

from mage_envs.games.webshop.session import LONGEST_QUERY, Session, parse

FIND, OPEN = "search[alba canvas ballet flats]", "click[b000000001]"


@pytest.mark.parametrize(
    ("action", "ours", "upstream"),
    [
        ("search[Red Shoes]", ("search", "red shoes"), ("search", "red shoes")),
        ("click[Buy Now]", ("click", "buy now"), ("click", "buy now")),
        ("click[x] and more", ("click", "x"), ("click", "x")),
        ("click[x]\nmore", ("click", "x"), ("click", "x")),
        ("Search[x]", ("search", "x"), None),
        (" click [ x ] ", ("click", "x"), None),
        ("click[[2 pack] x]", ("click", "[2 pack] x"), None),
        ("search[a [b] c]", ("search", "a [b] c"), None),
        ("search[a] b]", ("search", "a] b"), ("search", "a] b")),
        ("search[a\nb]", ("search", "a\nb"), None),
        ("search[ x]", ("search", "x"), ("search", " x")),
        ("search[ ]", None, ("search", " ")),
        ("search[]", None, None),
        ("search", None, None),
        ("", None, None),
        ("[x]", None, None),
        ("buy[x]", None, None),
        ("research[x]", None, None),
        ("click x", None, None),
        ("click[x", None, None),
        ("click]x[", None, None),
        ("\nclick[x]", ("click", "x"), None),
        ("click[]]", ("click", "]"), ("click", "]")),
    ],
)
def test_parse(action, ours, upstream):
    assert parse(action) == ours
    assert parse(action, upstream=True) == upstream


@pytest.mark.parametrize("text", ["[" * 200_000, "click[" * 50_000, " " * 200_000, "click" + "[" * 200_000])
def test_hostile_texts_are_read_once(text):
    """A search with two greedy groups reads each of these once per bracket, which takes hours."""
    for upstream in (False, True):
        assert parse(text, upstream) is None


def test_a_visit(visit):
    session = visit()
    assert (session.page, list(session.clickables()), session.legal_actions()) == ("index", ["search"], ())
    session.play(FIND)
    assert (session.page, session.query, session.number) == ("results", "alba canvas ballet flats", 1)
    assert list(session.clickables())[:3] == ["back to search", "next >", "b000000001"]
    session.play(OPEN)
    assert (session.page, session.product.asin, session.visited) == ("item", "B000000001", {"B000000001"})
    assert list(session.clickables()) == [
        "back to search",
        "< prev",
        "description",
        "features",
        "reviews",
        "buy now",
        "royal blue",
        "red",
        "black | white",
        "6",
        "7",
        "8.5",
    ]
    for value in ("7", "royal blue", "red"):
        session.play(f"click[{value}]")
    assert list(session.options.items()) == [("size", "7"), ("color", "red")]
    for tab in ("description", "features", "reviews"):
        session.play(f"click[{tab}]")
        assert (session.page, session.sub, list(session.clickables())) == ("sub", tab, ["back to search", "< prev"])
        session.play("click[< prev]")
        assert (session.page, session.options) == ("item", {"size": "7", "color": "red"})
    session.play("click[< prev]")
    assert (session.page, session.product, session.options, session.visited) == ("results", None, {}, {"B000000001"})
    session.play("click[back to search]")
    assert (session.page, session.visited, session.results) == ("index", set(), ())


def test_a_purchase_ends_everything(visit):
    session = visit(FIND, OPEN, "click[royal blue]", "click[6]", "click[buy now]")
    assert (session.page, session.score.total) == ("done", 1.0)
    assert session.clickables() == {}
    assert not session.play(FIND)
    assert not session.play("click[buy now]")


def test_pages_of_results_never_end(visit):
    session = visit("search[shoes desk tea cream cable]")
    total = len(session.results)
    assert 10 < total <= 50
    assert len(session.shown) == 10
    assert "< prev" not in session.clickables()
    for number in range(2, 9):
        session.play("click[next >]")
        assert (session.number, len(session.results)) == (number, total)
        assert list(session.clickables())[:3] == ["back to search", "< prev", "next >"]
    assert not session.shown
    session.play("click[< prev]")
    assert session.number == 7


def test_previous_from_a_product_keeps_the_page(visit):
    session = visit("search[shoes desk tea cream cable]", "click[next >]")
    shown_before = list(session.shown)
    session.play(list(session.legal_actions())[3])
    session.play("click[< prev]")
    assert (session.number, list(session.shown)) == (2, shown_before)


def test_a_search_is_possible_from_every_page(visit):
    for way in ((), (FIND,), (FIND, OPEN, "click[7]"), (FIND, OPEN, "click[7]", "click[features]")):
        session = visit(*way, "search[chai tea bags]")
        assert (session.page, session.number, session.product, session.options) == ("results", 1, None, {})


@pytest.mark.parametrize("way", [(), (FIND,), (FIND, OPEN), (FIND, OPEN, "click[features]")])
def test_what_means_nothing_changes_nothing(visit, way):
    session = visit(*way)
    # The first call stores the names of the page.
    session.clickables()
    state = dict(vars(session))
    for action in (
        "click[search]",
        "click[no such thing]",
        "nonsense",
        "",
        "click[attributes]",
        "click[b000000002]",
        f"search[{'x' * (LONGEST_QUERY + 1)}]",
    ):
        assert not session.play(action)
        assert vars(session) == state


def test_a_page_makes_its_names_once(visit, rng, monkeypatch):
    pages_named, names = [], Session._names
    monkeypatch.setattr(Session, "_names", lambda session: pages_named.append(session.page) or names(session))
    session, pages = visit(), 1
    for _ in range(300):
        page_before = (session.page, session.number)
        legal = [f"search[{FIND[7:-1]}]", *session.legal_actions()]
        session = copy(session)
        assert session.play(legal[int(rng.integers(len(legal)))])
        assert list(session.clickables()) == list(names(session))
        pages += (session.page, session.number) != page_before or session.page == "results"
        if session.page == "done":
            session, pages = visit(), pages + 1
    assert len(pages_named) <= pages


def test_buttons_come_before_options_of_the_same_name(visit):
    way = ("search[gala heels]", "click[b000000007]")
    session = visit(*way)
    assert list(session.clickables())[-2:] == ["search", "plain"]
    assert "click[search]" not in session.legal_actions()
    assert not session.play("click[search]")
    assert visit(*way, "click[description]").page == "sub"
    assert visit(*way, "click[buy now]").page == "done"
    assert visit(*way, "click[plain]").options == {"style": "plain"}


def test_a_value_of_two_axes_goes_to_the_last(visit):
    way = ("search[heath slippers]", "click[b000000008]")
    session = visit(*way)
    assert session.product.options == {"color": ("grey",), "pattern": ("grey", "x [2]")}
    session.play("click[grey]")
    assert session.options == {"pattern": "grey"}
    session.play("click[x [2]]")
    assert session.options == {"pattern": "x [2]"}
    upstream = visit(*way, upstream=True)
    assert not upstream.play("click[x [2]]")
    assert "click[x [2]]" not in upstream.legal_actions()


def test_empty_values_cannot_be_clicked(visit):
    session = visit("search[iris moccasins]", "click[b000000009]")
    assert "" in session.clickables()
    assert session.legal_actions()[-1] == "click[6]"
    assert "click[]" not in session.legal_actions()


def test_asins_of_any_case(visit):
    assert visit("search[lower case cable]", "click[B0LOWER999]").product.asin == "b0lower999"


def test_attributes_only_where_asked_for(visit):
    assert not visit(FIND, OPEN).play("click[attributes]")
    session = visit(FIND, OPEN, "click[attributes]", shows_attributes=True)
    assert (session.page, session.sub) == ("sub", "attributes")


def test_every_legal_action_works(visit):
    for way in (
        (FIND,),
        ("search[shoes desk tea cream cable]", "click[next >]"),
        (FIND, OPEN),
        ("search[juno bold quoted pumps]", "click[b00000000a]"),
        (FIND, OPEN, "click[reviews]"),
    ):
        for upstream in (False, True):
            for action in visit(*way, upstream=upstream).legal_actions():
                visit(*way, action, upstream=upstream)


class TestMagicQueries:
    def test_they_are_words_by_default(self, visit):
        assert visit("search[<r>]").results == visit("search[r]").results
        assert len(visit("search[<q> standing desk]").results) <= 50

    def test_listings(self, visit):
        def search_asins(query):
            session = visit(f"search[{query}]", upstream=True)
            return [session.shop.catalogue.product(position).asin for position in session.results]

        assert (
            search_asins("<c> garden")
            == search_asins("<q> standing desk")
            == ["B00000000F", "B00000000G", "B00000000H"]
        )
        assert search_asins("<c> garden more") == search_asins("<c> garden")
        assert search_asins("<c> nothing") == search_asins("<q>") == []

    def test_what_crashes_there_does_nothing_here(self, visit):
        session = visit(FIND, upstream=True)
        for query in ("<a> rubber sole", "<c>", "<r>"):  # <r> wants 50 products, and there are 23
            assert not session.play(f"search[{query}]")
        assert session.query == "alba canvas ballet flats"
