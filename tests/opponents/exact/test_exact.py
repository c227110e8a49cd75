"""Exact values, with mathematics as the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from mage_envs.core import Game, GameSpec, NotEnumerable, Policy, State, Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.table_game import TableState
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.opponents import TabularPolicy, list_opponents, make_opponent
from mage_envs.opponents.exact import NotExact, best_nonadaptive, best_response, ceiling, nash_conv, policy_value
from tests.opponents.dealing import play

KUHN = KuhnPoker()
TTT = TicTacToe()
DEMO = ("kuhn/soft-conservative", "kuhn/soft-aggressive", "kuhn/soft-station", "kuhn/soft-scared")


@pytest.mark.parametrize(
    ("name", "first_seat", "second_seat"),
    [
        ("kuhn/conservative", "1/6", "1/3"),
        ("kuhn/aggressive", "1/3", "1/3"),
        ("kuhn/intermediate", "1/3", "1/6"),
        ("cfr-argmax", "1/6", "1/6"),
        ("kuhn/nash", "-1/18", "1/18"),
        ("uniform", "1/2", "5/12"),
        ("kuhn/passive", "1", "1"),
    ],
)
def test_kuhn_ceilings(name: str, first_seat: str, second_seat: str) -> None:
    for seat, value in enumerate((first_seat, second_seat)):
        assert best_response(KUHN, name, seat).value == pytest.approx(float(Fraction(value)), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "first_seat", "second_seat"),
    [
        ("conservative", 0.1350, 0.2625),
        ("aggressive", 0.2467, 0.2755),
        ("station", 0.2417, 0.2506),
        ("scared", 0.4483, 0.3226),
    ],
)
def test_ceilings_of_the_soft_opponents(name: str, first_seat: float, second_seat: float) -> None:
    assert [best_response(KUHN, f"kuhn/soft-{name}", seat).value for seat in (0, 1)] == pytest.approx(
        [first_seat, second_seat], abs=5e-5
    )


def brute_force(opponent: Policy, seat: int) -> float:
    """The best of all deterministic Kuhn policies of a seat, by enumeration."""
    states = ["J", "Q", "K", "Jpb", "Qpb", "Kpb"] if seat == 0 else ["Jp", "Qp", "Kp", "Jb", "Qb", "Kb"]
    best = -np.inf
    for choice in product((0, 1), repeat=6):
        table = {
            s: {(("fold", "call") if s.endswith("b") else ("check", "bet"))[c]: 1.0} for s, c in zip(states, choice)
        }
        mine = TabularPolicy(table)
        best = max(best, policy_value(KUHN, (mine, opponent) if seat == 0 else (opponent, mine))[seat])
    return best


@pytest.mark.parametrize("name", ["kuhn/soft-scared", "kuhn/nash:0.1"])
def test_best_response_equals_the_best_of_all_64(name: str) -> None:
    opponent = make_opponent(name, KUHN)
    for seat in (0, 1):
        assert best_response(KUHN, opponent, seat).value == pytest.approx(brute_force(opponent, seat), abs=1e-12)


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game", [KUHN, TTT], ids=["kuhn", "ttt"])
def test_the_responding_policy_reaches_the_value(game: Game, seat: int) -> None:
    for objective in ("returns", "success"):
        answer = best_response(game, "uniform", seat, objective)
        pair = (answer.policy, "uniform") if seat == 0 else ("uniform", answer.policy)
        assert policy_value(game, pair, objective)[seat] == pytest.approx(answer.value, abs=1e-12)


@pytest.mark.parametrize("alpha", [0, 0.1, 1 / 6, 0.25, 1 / 3])
def test_nash_is_an_equilibrium_worth_a_chip_in_eighteen(alpha: float) -> None:
    names = [f"kuhn/nash:{alpha!r}"] * 2
    assert policy_value(KUHN, names) == pytest.approx((-1 / 18, 1 / 18), abs=1e-12)
    assert nash_conv(KUHN, names) == pytest.approx(0, abs=1e-12)


def test_nash_conv() -> None:
    assert nash_conv(KUHN, ["uniform", "uniform"]) == pytest.approx(11 / 12, abs=1e-12)
    assert nash_conv(KUHN, ["cfr", "cfr"]) / 2 == pytest.approx(0.0009, abs=1e-4)
    assert nash_conv(KUHN, ["cfr-argmax", "cfr-argmax"]) / 2 == pytest.approx(1 / 6, abs=1e-9)
    assert nash_conv(KUHN, ["cfr:20", "cfr:20"]) > nash_conv(KUHN, ["cfr", "cfr"])
    assert nash_conv(TTT, ["minimax", "minimax"]) == 0


def test_openspiel_agrees() -> None:
    import pyspiel

    game = pyspiel.load_game("kuhn_poker")
    table = pyspiel.UniformRandomPolicy(game)
    assert nash_conv(KUHN, ["uniform", "uniform"]) == pytest.approx(2 * pyspiel.exploitability(game, table), abs=1e-12)


@pytest.mark.parametrize("name", [n for n in list_opponents("TicTacToe") if n.startswith("tictactoe/pattern")])
def test_patterns_can_always_be_beaten(name: str) -> None:
    assert [best_response(TTT, name, seat, "success").value for seat in (0, 1)] == [1, 1]


def test_tictactoe_ceilings() -> None:
    values = [best_response(TTT, "uniform", seat, "success").value for seat in (0, 1)]
    assert values == pytest.approx([0.9948, 0.9386], abs=5e-5)
    assert [best_response(TTT, "minimax", seat).value for seat in (0, 1)] == [0, 0]


def test_the_demo_pool() -> None:
    """The three levels of the demo: uniform play, the best without knowing the opponent, the best knowing it."""
    seats = (0, 1)
    blind = np.mean([best_nonadaptive(KUHN, "pool:kuhn/demo", seat).value for seat in seats])
    knowing = np.mean([best_response(KUHN, name, seat).value for seat in seats for name in DEMO])
    uniform = np.mean(
        [policy_value(KUHN, ("uniform", name))[0] for name in DEMO]
        + [policy_value(KUHN, (name, "uniform"))[1] for name in DEMO]
    )
    assert blind == pytest.approx(0.1209, abs=5e-5)
    assert knowing == pytest.approx(0.2729, abs=5e-5)
    assert uniform == pytest.approx(-0.166, abs=5e-4)


def mixture_value(game: Game, mine: Policy, pool: dict[str, float], seat: int) -> float:
    total = sum(pool.values())
    return sum(
        weight / total * policy_value(game, (mine, name) if seat == 0 else (name, mine))[seat]
        for name, weight in pool.items()
    )


@pytest.mark.parametrize("seat", [0, 1])
def test_best_nonadaptive_reaches_its_value_and_lies_between(seat: int) -> None:
    pool = {"kuhn/aggressive": 1.0, "kuhn/soft-station": 2.0, "kuhn/conservative": 0.5}
    answer = best_nonadaptive(KUHN, pool, seat)
    assert mixture_value(KUHN, answer.policy, pool, seat) == pytest.approx(answer.value, abs=1e-12)
    for name in pool:
        response = best_response(KUHN, name, seat).policy
        assert mixture_value(KUHN, response, pool, seat) <= answer.value + 1e-12
    assert answer.value <= sum(pool[n] / 3.5 * best_response(KUHN, n, seat).value for n in pool)


def test_a_pool_of_one_is_a_best_response() -> None:
    for seat in (0, 1):
        assert best_nonadaptive(KUHN, "uniform", seat).value == best_response(KUHN, "uniform", seat).value


def turn_after(*moves: str, player: int, at: str) -> Turn:
    """A turn in the information state `at`, where heads and tails are legal."""
    legal = ("heads", "tails")
    return Turn(player, observation="", legal_actions=legal, information_state=at, episode=0, history=moves)


@pytest.mark.parametrize("seat", [0, 1])
def test_best_nonadaptive_with_perfect_information_reads_the_history(seat: int) -> None:
    """Two patterns part at the first move; both can be beaten all the same, and the policy does it by playing."""
    pool = {"tictactoe/pattern-1": 1.0, "tictactoe/pattern-3": 1.0, "tictactoe/pattern-6": 1.0}
    answer = best_nonadaptive(TTT, pool, seat, "success")
    wins = 0.0
    for name in pool:
        policies = [answer.policy, make_opponent(name, TTT)][:: 1 if seat == 0 else -1]
        wins += play(TTT, policies, 0)[1][seat] > 0
    assert wins / 3 == pytest.approx(answer.value)
    with pytest.raises(ValueError, match=r"^This best response never meets the history"):
        answer.policy.act(turn_after("never", player=seat, at="nowhere"))


def table_state(player: int | None, key: str, value: float = 0.0, **children: TableState) -> TableState:
    state = TableState(
        player, (-value, value), observations=("", ""), keys=(key, key), origin=(table_state, (player, key))
    )
    state.connect(children)
    return state


class Signals(Game):
    """Player 0 plays a and b in either order, to the same position; player 1 guesses; player 0 says right or wrong."""

    def __init__(self, perfect_information: bool = True) -> None:
        self.spec = GameSpec(name="Signals", rules="", perfect_information=perfect_information)

        def judge(key: str) -> TableState:
            return table_state(0, key, right=table_state(None, "right", 1.0), wrong=table_state(None, "wrong", -1.0))

        guess = table_state(1, "guess", heads=judge("heads"), tails=judge("tails"))
        self.root = table_state(0, "root", a=table_state(0, "a", b=guess), b=table_state(0, "b", a=guess))

    def initial_state(self, rng: np.random.Generator) -> State:
        return self.root

    def initial_states(self) -> Sequence[tuple[float, State]]:
        return ((1.0, self.root),)


def signaller(first_move: str, right_guess: str) -> TabularPolicy:
    """Return a policy that begins with `first_move` and calls only `right_guess` right."""
    moves = {"root": first_move, "a": "b", "b": "a"}
    moves |= {guess: "right" if guess == right_guess else "wrong" for guess in ("heads", "tails")}
    return TabularPolicy({state: {action: 1.0} for state, action in moves.items()})


def test_the_order_of_moves_distinguishes_opponents() -> None:
    """The position before the guess is the same. A player that looks at the history always guesses right."""
    answer = best_nonadaptive(Signals(), {signaller("a", "heads"): 0.5, signaller("b", "tails"): 0.5}, 1)
    assert answer.value == 1.0
    assert answer.policy.act(turn_after("a", "b", player=1, at="guess")) == "heads"
    assert answer.policy.act(turn_after("b", "a", player=1, at="guess")) == "tails"
    same = best_nonadaptive(Signals(), {signaller("a", "heads"): 0.25, signaller("a", "tails"): 0.75}, 1)
    assert same.value == 0.5


def test_shared_positions_need_perfect_information() -> None:
    with pytest.raises(
        ValueError, match=r"^Signals: the information state 'tails' of seat 0 forgets what the seat knew"
    ):
        best_response(Signals(perfect_information=False), signaller("a", "heads"), 1)


class Plain:
    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[0]


def test_what_is_not_exact() -> None:
    message = r"^Opponent 'Plain' has no distribution\(turn\): exact values against it are not available\.$"
    with pytest.raises(NotExact, match=message):
        best_response(KUHN, Plain(), 0)
    with pytest.raises(NotExact, match=r"^Opponent 'mcts:100' has no"):
        best_nonadaptive(TTT, "pool:tictactoe/balanced", 0)
    assert ceiling(TTT, "mcts:100", 0) is None
    assert ceiling(KUHN, "uniform", 0) == pytest.approx(1 / 2)


class Treeless(Signals):
    """The same game without a known tree."""

    initial_states = Game.initial_states


def test_games_without_a_tree() -> None:
    treeless = Treeless()
    message = r"^Signals cannot be enumerated: it does not define initial_states\(\)\.$"
    with pytest.raises(NotEnumerable, match=message):
        best_response(treeless, "uniform", 0)
    assert ceiling(treeless, "uniform", 0) is None


def test_other_errors() -> None:
    with pytest.raises(ValueError, match=r"^KuhnPoker has the seats 0 to 1, got seat=2\.$"):
        best_response(KUHN, "uniform", 2)
    with pytest.raises(ValueError, match=r"^objective='wins' is unknown; choose 'returns' or 'success'\.$"):
        best_response(KUHN, "uniform", 0, "wins")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^KuhnPoker has 2 seats, got 1 policies\.$"):
        policy_value(KUHN, ["uniform"])
    with pytest.raises(ValueError, match=r"^Opponent 'kuhn/nash' plays KuhnPoker, not TicTacToe"):
        ceiling(TTT, "kuhn/nash", 0)
