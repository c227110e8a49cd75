"""Perfect recall: a key that forgets is refused wherever exact values are computed, and a key that remembers is not."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import Game, GameSpec, IllegalAction, State, list_games, make_game
from mage_envs.benchmarks.chaos.checks import CHECKS
from mage_envs.opponents.exact import bayes_value, best_nonadaptive, best_response, headroom, nash_conv
from mage_envs.opponents.exact.perfect_information import HistoryPolicy
from mage_envs.testing import Finding, recalls
from mage_envs.tree import ImperfectRecall, check_observations, is_enumerable, tree_of

WORDS = ("king", "queen")


@dataclass(frozen=True)
class WordGame(State):
    """Seat 0 sees a card and says a word, seat 1 says a word aloud, and seat 0 names the card."""

    shows: frozenset[str]
    keyed: bool
    card: str
    words: tuple[str, ...] = ()

    @property
    def player(self):
        return None if len(self.words) == 3 else (0, 1, 0)[len(self.words)]

    @property
    def legal_actions(self):
        return () if len(self.words) == 3 else WORDS

    @property
    def returns(self):
        if len(self.words) < 3:
            return (0.0, 0.0)
        return (1.0, -1.0) if self.words[2] == self.card else (-1.0, 1.0)

    def _text(self, seat, shows):
        if seat == 1:
            return f"The other said {self.words[0]}." if self.words else "Wait."
        facts = {"card": f"Your card: {self.card}."}
        if self.words:
            facts |= {"own": f"You said {self.words[0]}.", "other": f"The other said {''.join(self.words[1:2])}."}
        facts_shown = [text for name, text in facts.items() if name in shows or not self.words]
        return " ".join([*facts_shown, f"Word {len(self.words) + 1}?"])

    def observation(self, seat):
        return self._text(seat, {"card", "own", "other"} if self.keyed else self.shows)

    def information_state(self, seat):
        # A key of its own that forgets, although the observation repeats everything.
        return self._text(seat, self.shows) if self.keyed else self.observation(seat)

    def after(self, action):
        if action not in self.legal_actions:
            raise IllegalAction(action, self.legal_actions)
        return WordGame(self.shows, self.keyed, self.card, (*self.words, action))


class Naming(Game):
    spec = GameSpec(name="Naming", rules="See a card, say a word, name the card.", max_turns=4, actions=WORDS)

    def __init__(self, shows: str = "card own other", keyed: bool = False) -> None:
        self._firsts = [(0.5, WordGame(frozenset(shows.split()), keyed, card)) for card in WORDS]

    def initial_state(self, rng):
        return self._firsts[int(rng.integers(2))][1]

    def initial_states(self):
        return self._firsts


class King:
    follows_information_state = True

    def reset(self, rng): ...

    def act(self, turn):
        return "king"

    def distribution(self, turn):
        return {"king": 1.0}


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("shows", ["own other", "card other", "own", "card", "other", ""])
def test_a_key_that_forgets_a_card_or_an_action_is_refused(shows, keyed):
    with pytest.raises(ImperfectRecall, match=r"^Naming: the information state .* of seat 0 forgets") as caught:
        tree_of(Naming(shows, keyed))
    assert "\n" not in str(caught.value)


def test_a_key_that_remembers_has_exact_values():
    assert best_response(Naming(), King(), 0).value == 1.0
    # The mean over the seats: the other seat cannot change which word King says.
    assert headroom(Naming(), {King(): 1.0}, episodes=1).blind == 0.5


def test_a_key_that_leaves_out_what_the_observation_shows_is_refused():
    """Raise an error if the key omits a fact of the observation: the opponent's public move or the own card."""
    assert tree_of(Naming("card own", keyed=False))
    with pytest.raises(ImperfectRecall, match=r"^Naming: seat 0 reads .* at the same information state"):
        tree_of(Naming("card own", keyed=True))


@pytest.mark.parametrize(
    "use",
    [
        lambda game: best_response(game, King(), 0),
        lambda game: nash_conv(game, [King(), King()]),
        lambda game: bayes_value(game, {King(): 1.0}, episodes=2),
        lambda game: headroom(game, {King(): 1.0}, episodes=2),
    ],
)
def test_all_exact_values_go_through_the_check(use):
    with pytest.raises(ImperfectRecall, match="forgets"):
        use(Naming("own"))


def test_two_positions_under_one_key_need_not_have_one_set_of_actions():
    class Odd(WordGame):
        @property
        def legal_actions(self):
            return ("king",) if not self.words and self.card == "king" else super().legal_actions

        def observation(self, seat):
            return "Say a word." if not self.words else super().observation(seat)

    class Oddly(Naming):
        def initial_states(self):
            return [(0.5, Odd(frozenset({"card", "own", "other"}), False, card)) for card in WORDS]

    with pytest.raises(ImperfectRecall, match=r"has two sets of legal actions, 'king, queen' and 'king'"):
        tree_of(Oddly())


def test_perfect_information_that_hides_a_card_is_refused():
    class Open(Naming):
        spec = GameSpec(name="Open", rules="As Naming.", perfect_information=True, actions=WORDS)

    with pytest.raises(ImperfectRecall, match=r"^Open: .* different futures, although GameSpec.perfect_information"):
        tree_of(Open("own other"))


@dataclass(frozen=True)
class Pile(State):
    """Take one or two of five; the state remembers the moves, and the observation shows the pile."""

    moves: tuple[str, ...] = ()

    @property
    def pile(self):
        return 5 - sum(map(int, self.moves))

    @property
    def player(self):
        return len(self.moves) % 2 if self.pile > 0 else None

    @property
    def legal_actions(self):
        return ("1", "2")[: max(self.pile, 0)]

    @property
    def returns(self):
        if self.pile:
            return (0.0, 0.0)
        return (1.0, -1.0) if len(self.moves) % 2 else (-1.0, 1.0)

    def observation(self, seat):
        return f"{self.pile} left. Player {len(self.moves) % 2}."

    def after(self, action):
        if action not in self.legal_actions:
            raise IllegalAction(action, self.legal_actions)
        return Pile((*self.moves, action))


class Nim(Game):
    spec = GameSpec(name="Nim5", rules="Take 1 or 2; who takes the last wins.", perfect_information=True)

    def initial_state(self, rng):
        return Pile()

    def initial_states(self):
        return [(1.0, Pile())]


class Taker:
    follows_information_state = True

    def __init__(self, count):
        self.count = count

    def reset(self, rng): ...

    def act(self, turn):
        return self.count if self.count in turn.legal_actions else turn.legal_actions[0]

    def distribution(self, turn):
        return {self.act(turn): 1.0}


def test_positions_of_perfect_information_may_forget_the_moves_that_led_to_them():
    tree = tree_of(Nim())
    assert tree.is_shared
    assert best_response(Nim(), Taker("1"), 0).value == 1.0
    # Against several opponents the order of the moves is evidence, which the best policy reads from `Turn.history`.
    answer = best_nonadaptive(Nim(), {Taker("1"): 0.5, Taker("2"): 0.5}, 1)
    assert isinstance(answer.policy, HistoryPolicy)


LARGE = ("LiarsDice", "Bargaining")
"""Games whose trees take seconds to build."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
        for name in list_games()
        if name in LARGE or is_enumerable(make_game(name))
    ],
)
def test_every_game_of_the_suite_has_perfect_recall(name):
    tree = tree_of(make_game(name))
    if name not in LARGE:
        check_observations(name, tree.order)


def test_the_contract_tests_report_it():
    class Env(gym.Env):
        game = Naming("own")

    with pytest.raises(Finding, match="forgets what the seat knew"):
        recalls(Env, 0)
    Env.game = Naming()
    recalls(Env, 0)
    assert CHECKS["recall"] is recalls


def test_the_check_changes_no_value():
    rng = np.random.default_rng(0)
    assert Naming().initial_state(rng).player == 0
    assert best_response(make_game("KuhnPoker"), "kuhn/nash", 0).value == pytest.approx(-1 / 18)
