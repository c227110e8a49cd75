"""IS-MCTS: the positions it deals from are those that fit, it plays well, and a seed brings the hand back."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs.core import Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.registered import ConnectFour, LeducPoker, LiarsDice, Negotiation
from mage_envs.match import play_match
from mage_envs.opponents import make_opponent
from mage_envs.opponents.search.openspiel import DoesNotSuit, form_of
from mage_envs.opponents.search.worlds import NothingFits, Worlds
from tests.opponents.dealing import dealt
from tests.packages import mark_params


def follow_game(game: OpenSpiel, seed: int) -> None:
    """Plays a random hand, and checks at every turn that the real position is one of the worlds, all of which fit."""
    rng, form = np.random.default_rng(seed), form_of(game, "test")
    state = game.initial_state(rng)
    worlds = [Worlds(form, np.random.default_rng(seed)) for _ in range(game.spec.players)]
    while (player := state.player) is not None:
        mine, real = worlds[player], state.position.state
        mine.see(player, state.information_state(player))
        assert str(real) in {str(world) for _, world in mine.now}
        for _, world in mine.now[:50]:
            assert world.current_player() == player
            assert form.key_of(world, player) == state.information_state(player)
            assert world.legal_actions() == real.legal_actions()
        choice = int(rng.integers(len(state.legal_actions)))
        mine.play(real.legal_actions()[choice])
        state = state.after(state.legal_actions[choice])


@pytest.mark.parametrize(
    "game",
    [
        LeducPoker(),
        LiarsDice(),
        Negotiation(),
        OpenSpiel("kuhn_poker(players=3)"),
        OpenSpiel("goofspiel(num_cards=4)"),
        OpenSpiel("dark_hex(board_size=2)"),
        OpenSpiel("tiny_hanabi"),
    ],
    ids=lambda game: game.spiel_game,
)
def test_the_worlds_are_those_that_fit(game: OpenSpiel) -> None:
    for seed in range(4):
        follow_game(game, seed)


def test_worlds_are_weighed_by_chance() -> None:
    """Holding K in Leduc, the other card is J or Q with probability 2/5 each and K with 1/5."""
    game = LeducPoker()
    form = form_of(game, "test")
    state = next(state for _, state in game.initial_states() if "card: K" in state.observation(0))
    worlds = Worlds(form, np.random.default_rng(0))
    worlds.see(0, state.information_state(0))
    assert sorted(weight for weight, _ in worlds.now) == pytest.approx([1 / 15, 2 / 15, 2 / 15])
    samples = [worlds.sample().information_state_string(1) for _ in range(3000)]
    shares = sorted(samples.count(text) / 3000 for text in set(samples))
    assert shares == pytest.approx([0.2, 0.4, 0.4], abs=0.03)


def test_what_cannot_be_is_said() -> None:
    worlds = Worlds(form_of(LeducPoker(), "test"), np.random.default_rng(0))
    with pytest.raises(NothingFits, match="none of the tracked positions fits the information state of player 0"):
        worlds.see(0, "[Observer: 0][Private: 9]")
    policy = make_opponent("ismcts:5", LeducPoker())
    policy.reset(np.random.default_rng(0))
    with pytest.raises(ValueError, match="Opponent 'ismcts' cannot continue this hand of LeducPoker"):
        policy.act(Turn(0, "", ("check", "raise"), "nonsense"))


@pytest.mark.parametrize(
    "game",
    mark_params([KuhnPoker(), LeducPoker(), Negotiation(), OpenSpiel("phantom_ttt")], step=2),
    ids=["kuhn", "leduc", "negotiation", "phantom"],
)
def test_a_seed_brings_the_hands_back(game: OpenSpiel | KuhnPoker) -> None:
    def returns(seed: int) -> list[list[float]]:
        players = [make_opponent("ismcts:12", game), make_opponent("uniform", game)]
        return play_match(game, players, np.random.default_rng(seed), 6).returns.tolist()  # type: ignore[no-any-return]

    assert returns(3) == returns(3)


def test_it_beats_random_players() -> None:
    leduc = play_match(
        LeducPoker(),
        [make_opponent("ismcts:60", LeducPoker()), make_opponent("uniform", LeducPoker())],
        np.random.default_rng(1),
        150,
    )
    assert leduc.mean[0] - 2 * leduc.standard_error[0] > 0
    kuhn = KuhnPoker()
    result = play_match(
        kuhn, [make_opponent("ismcts:60", kuhn), make_opponent("uniform", kuhn)], np.random.default_rng(1), 300
    )
    assert result.mean[0] - 2 * result.standard_error[0] > 0


def test_it_takes_a_sure_win() -> None:
    """Liar's Dice: after '2 sixes' with no six of one's own, 'liar' wins for sure."""
    game = LiarsDice()
    hand = next(hand for seed in range(99) if "die: 2" in (hand := dealt(game, seed, "2 fives")).state.observation(1))
    policy = make_opponent("ismcts:50", game)
    policy.reset(np.random.default_rng(0))
    assert policy.act(hand.turn(1)) == "liar"


def test_what_it_does_not_play() -> None:
    with pytest.raises(DoesNotSuit, match=r"'ismcts' requires hidden information; hex.* has none. Use 'mcts'"):
        make_opponent("ismcts", OpenSpiel("hex(board_size=3)"))
    with pytest.raises(DoesNotSuit, match=r"'mcts' cannot play kuhn_poker, which has hidden information. Use 'ismcts'"):
        make_opponent("mcts", OpenSpiel("kuhn_poker"))
    with pytest.raises(ValueError, match="plays KuhnPoker or .*, not ConnectFour"):
        make_opponent("ismcts", ConnectFour())
    with pytest.raises(ValueError, match="simulations must be from 1 to 10,000,000, got 0"):
        make_opponent("ismcts:0", KuhnPoker())


@pytest.mark.parametrize(("text", "budget"), [("hex(board_size=4)", 50), ("pig(winscore=15)", 60), ("mancala", 20)])
def test_mcts_follows_any_game_that_hides_nothing(text: str, budget: int) -> None:
    game = OpenSpiel(text)
    players = [make_opponent(f"mcts:{budget}", game), make_opponent("uniform", game)]
    first_match = play_match(game, players, np.random.default_rng(2), 4)
    second_match = play_match(game, players, np.random.default_rng(2), 4)
    assert first_match.returns.tolist() == second_match.returns.tolist()
    assert first_match.mean[0] > 0


def test_mcts_wins_connect_four_in_one_move() -> None:
    game = ConnectFour()
    policy = make_opponent("mcts:200", game)
    policy.reset(np.random.default_rng(0))
    assert policy.act(dealt(game, 0, *"112233").turn(0)) == "4"
