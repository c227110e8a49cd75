"""Promises: who hears what, and exact values by hand and by whole histories."""

from __future__ import annotations

from collections import Counter

import pytest

from mage_envs.games.promises import CLAIMS, SENTENCES, Promises
from mage_envs.opponents import as_pool, make_opponent
from mage_envs.opponents.exact import NotExact, best_response, headroom
from mage_envs.tree import tree_of
from tests.contract import check_id
from tests.games.whole_histories import optimum, view
from tests.mage_envs.test_words import play_texts

POOL = "pool:promises/speakers"


def after(*actions, **options):
    [(_, state)] = Promises(**options).initial_states()
    for action in actions:
        state = state.after(action)
    return state


def test_a_round():
    assert (after().player, after().legal_actions) == (0, tuple(SENTENCES))
    spoken = after("say nothing", "say share")
    assert (spoken.player, spoken.legal_actions) == (0, CLAIMS)
    assert spoken.observation(0) == (
        'Round 1 of 2: you say nothing, the other player says "I will share". The other player chooses at the same '
        "time. Share or grab?"
    )
    claimed = spoken.after("grab")
    assert claimed.player == 1
    assert claimed.information_state(1) == spoken.information_state(1) == "second opp-say-nothing say-share"
    assert "grab" not in claimed.observation(1).replace("Share or grab?", "")
    assert claimed.information_state(0) == "first say-nothing opp-say-share grab"
    paid = claimed.after("share")
    assert paid.information_state(1) == "second opp-say-nothing say-share opp-grab share"
    assert paid.observation(0) == (
        'Round 1 of 2: you say nothing, the other player says "I will share". You grab, the other player shares: 3 '
        "points for you, 1 for the other player.\nRound 2 of 2: What do you say?"
    )


@pytest.mark.parametrize(
    ("claims", "points"),
    [("share share", (2, 2)), ("share grab", (1, 3)), ("grab share", (3, 1)), ("grab grab", (0, 0))],
)
def test_points(claims, points):
    end = after("say share", "say share", *claims.split(), rounds=1)
    assert end.returns == points
    assert [end.won(seat) for seat in (0, 1)] == [points[0] >= 2, points[1] >= 2]


def test_without_listening_the_words_are_hidden():
    for said in SENTENCES:
        state = after("say grab", said, heard=False)
        assert state.observation(0) == (
            'Round 1 of 2: you say "I will grab". The other player chooses at the same time. Share or grab?'
        )
        assert state.information_state(0) == "first say-grab"
    assert "I will grab" in after("say grab", heard=False).observation(1), "the second player hears the first"


def test_size_of_the_tree():
    # A round has 1 + 3 + 9 + 18 positions, and each of its 36 ends begins the second round.
    assert len(tree_of(Promises()).order) == 31 + 36 * (31 + 36)


def claims_of(name, *actions):
    """Return the play of an opponent whose turn it is."""
    state = after(*actions)
    return make_opponent(f"promises/{name}", Promises()).distribution(view(state, state.player, 0))


def test_who_keeps_its_word():
    assert claims_of("honest", "say grab", "say share", "grab") == {"share": 1.0}
    assert claims_of("honest", "say grab", "say grab", "grab") == {"grab": 1.0}
    assert claims_of("liar", "say grab", "say share", "grab") == {"grab": 1.0}
    assert claims_of("liar:.7", "say nothing") == pytest.approx({"say share": 0.7, "say grab": 0.3})
    assert claims_of("random", "say grab", "say share", "grab") == {"share": 0.5, "grab": 0.5}
    # In the first seat, it keeps its word too. After a word that it would not say, it does either.
    assert claims_of("honest", "say grab", "say share") == {"grab": 1.0}
    assert claims_of("honest:.8", "say nothing", "say share") == pytest.approx({"share": 0.8, "grab": 0.2})


def test_the_mirror_lies_after_a_broken_promise():
    mirror = make_opponent("promises/mirror", Promises())
    for promise, honest in (("say share", 0.0), ("say grab", 1.0), ("say nothing", 1.0)):
        state = after(promise, "say share", "grab", "share", "say nothing", "say share", "share")
        assert mirror.distribution_given(view(state, 1, 0), True) == {"share": honest, "grab": 1 - honest}


def test_memories():
    game = Promises()
    turncoat, mirror = (make_opponent(f"promises/{name}", game) for name in ("until-it-pays", "mirror"))
    believed = after("say share", "say share", "grab", "share", "say nothing", "say grab", "share", "grab")
    doubted = after("say share", "say share", "grab", "share", "say nothing", "say grab", "grab", "grab")
    assert [turncoat.step(memory, view(believed, 1, 0)) for memory in (True, False)] == [False, False]
    assert [turncoat.step(memory, view(doubted, 1, 0)) for memory in (True, False)] == [True, False]
    # The learner broke its promise in the first round and announced nothing in the second.
    assert [mirror.step(memory, view(believed, 1, 0)) for memory in (True, False)] == [False, False]
    silent = after("say nothing", "say share", "grab", "share", "say nothing", "say grab", "share", "grab")
    assert [mirror.step(memory, view(silent, 1, 0)) for memory in (True, False)] == [True, False]


def test_three_players():
    state = after("say share", "say grab", "say nothing", "grab", "share", players=3)
    assert state.player == 2
    assert state.information_state(2) == "third opp1-say-share opp2-say-grab say-nothing"
    assert state.information_state(1) == "second opp2-say-share say-grab opp1-say-nothing share"
    paid = state.after("share")
    # The first player grabs from both; the others share with each other, and are left with 1 by the first.
    assert paid.totals == (3, 1.5, 1.5)
    assert paid.observation(1).startswith(
        'Round 1 of 2: the first player says "I will share", you say "I will grab", the third player says nothing. You '
        "share, the first player grabs, the third player shares: 1.5 points for you, 3 for the first player, 1.5 for "
        "the third player."
    )
    game = Promises(players=3, rounds=1)
    turncoat = make_opponent("promises/until-it-pays", game)
    for claims, memory in (("grab share grab", False), ("grab share share", True)):
        end = after("say nothing", "say share", "say share", *claims.split(), players=3, rounds=1)
        assert turncoat.step(True, view(end, 1, 0)) == memory
    check_id("mage/Promises-Meta-v0", players=3, rounds=1, opponent="promises/mirror")
    # Two honest players share or grab by a fair coin each: 3 if both share, (3 + 0) / 2 or 1 if one does, and 1.
    assert best_response(game, "promises/honest", 0).value == pytest.approx((3 + 2 * 1.5 + 1) / 4)
    # Liars are worth as much, and random speakers 1.5. Without memory, words are true as often as not.
    values = headroom(game, "pool:promises/fixed", seat="first")
    assert values.blind_per_episode == pytest.approx([1.5] * 3)
    assert values.known_per_episode == pytest.approx([(1.75 + 1.75 + 1.5) / 3] * 3)
    with pytest.raises(NotExact, match=r"Promises has 3 seats\. Exact values against opponents that learn require 2"):
        headroom(game, POOL, seat="first")


def test_what_listening_is_worth_by_hand():
    game, deaf = Promises(), Promises(heard=False)
    # It shares in half of the rounds: grab then (3), share otherwise (1). Without listening both are worth 1.5.
    for name in ("honest", "liar"):
        assert best_response(game, f"promises/{name}", 0).value == pytest.approx(2)
        assert best_response(deaf, f"promises/{name}", 0).value == pytest.approx(1.5)
    # It shares in 3 of 10 rounds.
    assert best_response(game, "promises/liar:.7", 0).value == pytest.approx(0.3 * 3 + 0.7)
    assert best_response(deaf, "promises/liar:.7", 0).value == pytest.approx(0.3 * 2 + 0.7)
    assert best_response(game, "promises/random", 0).value == pytest.approx(1.5)


def test_headroom():
    values, deaf = (headroom(game, POOL, seat="first") for game in (Promises(), Promises(heard=False)))
    assert values.known_per_episode == pytest.approx([(4 * 2 + 1.6 + 1.5) / 6] * 3)
    no_memory, stationary, best = (
        sum(row) / 3 for row in (values.no_memory_per_episode, values.stationary_per_episode, values.per_episode["sum"])
    )
    assert no_memory + 0.02 < stationary < best - 0.08
    assert (no_memory, best) == pytest.approx((1.658333, 1.766667), abs=5e-6)
    # Without listening nothing is learned, and the words are worth the rest.
    for row in (deaf.no_memory_per_episode, deaf.per_episode["sum"], deaf.known_per_episode):
        assert row == pytest.approx([(5 * 1.5 + 1.3) / 6] * 3)


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.more)])
def test_two_episodes_against_whole_histories(rounds):
    game = Promises(rounds=rounds)
    opponents = [make_opponent(name, game) for name in as_pool(POOL).entries]
    values = headroom(game, POOL, episodes=2, seat="first")
    assert sum(values.per_episode["sum"]) / 2 == pytest.approx(optimum(game, opponents, 2), abs=1e-9)


def test_options():
    assert after("say share", "say share", "share", "grab", rounds=1, payoffs=(3, 0, 5, 1)).returns == (0, 5)
    assert Counter(node.player for node in tree_of(Promises(rounds=1)).order) == {0: 10, 1: 21, None: 36}
    for options, message in (
        ({"players": 4}, "players=4 is unknown; choose one of: 2, 3"),
        ({"rounds": 5}, "rounds=5 must be at most 4"),
        ({"payoffs": (1, 2)}, "must be four numbers"),
        ({"heard": "no"}, "heard='no' is unknown; choose one of: True, False"),
    ):
        with pytest.raises(ValueError, match=message):
            Promises(**options)
    with pytest.raises(ValueError, match=r"'promises/liar': the probability must be between 0 and 1, got 3"):
        make_opponent("promises/liar:3", Promises())


def test_a_conversation_in_words():
    texts = play_texts("Promises", ["say nothing", "grab"], opponent="promises/honest:1", num_episodes=1)
    assert texts[:3] == ["episode 1 first first", "opp-say-share", "opp-share"]
