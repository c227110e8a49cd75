"""The compact style: its texts, their completeness, and its closed vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import Game, State
from mage_envs.random.streams import GAME, Streams
from mage_envs.registry import load_game, make_game
from mage_envs.text.words.spelling import as_word, text_words
from mage_envs.text.words.vocabulary import vocabulary
from tests.contract import enumerable_games, games_with_opponents, short_game, short_options
from tests.packages import mark_params


def play_texts(game: str, answers: list[str], seed: int = 0, **options: object) -> list[str]:
    """The messages of a meta-episode in one conversation, as these answers are given; then the first legal ones."""
    all_options = {"num_episodes": 2, "style": "words", "context": "conversation", "memory": "history", **options}
    env = gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, **all_options)
    text, info = env.reset(seed=seed)
    texts, terminated = [text], False
    while not terminated:
        answer = answers.pop(0) if answers else info["legal_actions"][0]
        text, _, terminated, _, info = env.step(answer)
        texts.append(text)
    return texts[:-1]


def test_a_conversation_contains_only_new_text() -> None:
    texts = play_texts("TicTacToe", ["2 2", "(2, 2)", "(1, 1)"], opponent="minimax", seat="first", num_episodes=1)
    assert texts[:4] == ["episode 1 first", "opp-1-3", "illegal", "opp-3-3"]


def after(game: Game, root: int, *actions: str) -> State:
    state = game.initial_states()[root][1]
    for action in actions:
        state = state.after(action)
    return state


def test_leduc_and_liars_dice_in_words() -> None:
    game = make_game("LeducPoker")
    end = after(game, 1, "raise", "call", "check", "raise", "call")
    words = [game.spec.words(end.information_state(seat), seat) for seat in (0, 1)]
    assert words[0][1:3] == ("raise", "opp-call")
    assert words[0][4:7] == ("check", "opp-raise", "call")
    assert words[0][3] == words[1][3]
    assert words[0][7] == f"opp-{words[1][0]}"
    assert f"opponent had {words[1][0]}" in end.observation(0), "it is the card that the observation shows"
    folded = after(game, 1, "raise", "fold")
    assert game.spec.words(folded.information_state(1), 1)[1:] == ("opp-raise", "fold")
    dice = make_game("LiarsDice", sides=3)
    end = after(dice, 1, "1 two", "2 threes", "liar")
    own_words, other_words = (dice.spec.words(end.information_state(seat), seat) for seat in (0, 1))
    assert own_words[1:] == ("1-two", "opp-2-threes", "liar", f"opp-{other_words[0]}")
    assert other_words[1:] == ("opp-1-two", "2-threes", "opp-liar", f"opp-{own_words[0]}")


def every_state(game: Game) -> Iterator[State]:
    waiting, reached = [state for _, state in game.initial_states()], set()
    while waiting:
        state = waiting.pop()
        if id(state) not in reached:
            reached.add(id(state))
            yield state
            waiting += [state.after(action) for action in state.legal_actions]


@pytest.mark.parametrize("name", enumerable_games())
def test_the_words_say_all_that_an_information_state_does(name: str) -> None:
    """Two information states of a seat read alike only if they are the same, and no word contains a blank."""
    game = short_game(name)
    read: dict[tuple[int, tuple[str, ...]], str] = {}
    keep = []  # so that no id is given twice
    for state in every_state(game):
        keep.append(state)
        for seat in (0, 1):
            key = state.information_state(seat)
            words = tuple(game.spec.words(key, seat))
            assert read.setdefault((seat, words), key) == key
            assert all(word.split() == [word] for word in words)


@pytest.mark.parametrize("name", [name for name in games_with_opponents() if load_game(name).spec.actions is not None])
def test_the_vocabulary_is_closed(name: str) -> None:
    """Words of games of random play, with illegal answers among them, are all in the vocabulary."""
    options = short_options(name)
    game = make_game(name, **options)
    known_words = vocabulary(game)
    assert len(set(known_words)) == len(known_words)
    assert set(game.spec.actions or ()) <= set(known_words)
    rng = np.random.default_rng(5)
    env = gym.make(
        f"mage/{name}-Meta-v0", disable_env_checker=True, style="words", memory="both", context="rebuilt", **options
    )
    phrases = sorted((word for word in known_words if " " in word), key=len, reverse=True)
    for seed in range(2):
        text, info = env.reset(seed=seed)
        terminated = False
        while not terminated:
            for phrase in phrases:
                text = text.replace(f" {phrase} ", "  ").replace(f" {phrase} ", "  ")
            assert set(text.split()) <= set(known_words)
            legal = info["legal_actions"]
            answer = "opponent first often" if not legal else legal[int(rng.integers(len(legal)))]
            text, _, terminated, _, info = env.step("nonsense" if legal and rng.random() < 0.05 else answer)


def test_a_game_of_free_text_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="style='words' needs a fixed set of actions, which WebShop has not"):
        gym.make("mage/WebShop-Meta-v0", style="words", mode="html")
    with pytest.raises(ValueError, match="WebShop has no fixed set of actions"):
        vocabulary(make_game("WebShop", mode="html"))


BOARD = "#@1.1 #@1.2 {} _@1.4 #@2.1 #@2.2 {} X@2.4 _@3.1 _@3.2 _@3.3 O@3.4 _@4.1 _@4.2 _@4.3 _@4.4"


def test_a_board_is_one_word_per_cell_and_every_message_shows_it_whole() -> None:
    options = {"boxes": 1, "min_moves": 1, "max_moves": 3, "max_turns": 3}
    before, after = BOARD.format("P@1.3", "_@2.3"), BOARD.format("_@1.3", "P@2.3")
    texts = play_texts("Sokoban", ["down", "jump", "up", "down"], seed=1, **options)
    assert texts[:5] == [f"episode 1 {before}", after, f"illegal {after}", f"timeout episode 2 {before}", after]
    rebuilt = play_texts("Sokoban", ["down"], seed=1, context="rebuilt", memory="none", **options)
    assert rebuilt[1] == f"episode 1 {before} down {after}"


def test_a_solved_level_is_a_success_and_no_return() -> None:
    options = {"boxes": 1, "min_moves": 1, "max_moves": 3, "max_turns": 11}
    texts = play_texts("Sokoban", ["right", "down"], seed=1, **options)
    solved = BOARD.format("_@1.3", "_@2.3").replace("X@2.4", "P@2.4").replace("O@", "√@")
    assert texts[2].startswith(f"{solved} success episode 2 ")


def test_the_words_of_a_text_and_of_its_commands() -> None:
    texts = play_texts("ALFWorld", ["go to cabinet 1"], seed=1, max_turns=2)
    assert texts[0].startswith("episode 1 cabinet ")
    assert set(" ".join(texts)) <= set("abcdefghijklmnopqrstuvwxyz0123456789 ?")


@pytest.mark.parametrize(("options", "rows", "columns"), [({}, 4, 4), ({"size": 8, "boxes": 1}, 6, 6)])
def test_the_vocabulary_of_boards_is_complete(options: dict[str, int], rows: int, columns: int) -> None:
    """Any symbol in any cell, also those that random play hardly meets."""
    words = {word for word in vocabulary(make_game("Sokoban", **options)) if "@" in word}
    cells = [f"{row}.{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
    assert words == {f"{symbol}@{cell}" for symbol in "#_O√XPS" for cell in cells}


@pytest.mark.parametrize("game", mark_params(["ALFWorld", "KuhnPoker", "Sokoban", "TicTacToe"]))
def test_the_vocabulary_has_the_words_of_the_legal_actions(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them each action would be the same unknown word, and the first one would always be played."""
    from mage_envs.text.words import vocabulary as sampling

    monkeypatch.setattr(sampling, "SAMPLED_TEXTS", 3)
    made = make_game(game)
    actions = made.spec.actions
    if actions is None:
        commands = made.initial_state(Streams(0).at(GAME, 0, 0).generator()).legal_actions
        actions = tuple(word for command in commands for word in text_words(command, 0))
    assert actions
    assert set(actions) <= set(vocabulary(made))


def test_a_level_file_has_the_words_of_its_largest_level(tmp_path: Path) -> None:
    (tmp_path / "levels.txt").write_text("; 1\n#####\n#@$.#\n#####\n\n; 2\n#######\n#@ $ .#\n#     #\n#######\n")
    words = {word for word in vocabulary(make_game("Sokoban", generator=str(tmp_path / "levels.txt"))) if "@" in word}
    assert len(words) == 7 * 2 * 5
    assert {"P@2.5", "√@1.5"} <= words


def test_random_play_of_texts_meets_the_words_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    from mage_envs.text.words import vocabulary as sampling

    monkeypatch.setattr(sampling, "SAMPLED_TEXTS", 3)
    assert set(vocabulary(make_game("ALFWorld"))) >= {"go", "to", "open", "fridge", "success", "1"}


@pytest.mark.parametrize(
    ("action", "word"),
    [("bet", "bet"), ("offer 3", "offer-3"), ("(2, 2)", "2-2"), ("keep 1 book, 0 hats", "keep-1-book-0-hats")],
)
def test_an_action_as_one_word(action: str, word: str) -> None:
    assert as_word(action) == word
