"""Pictures, images, and the window, through pygame on a dummy display."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from dataclasses import dataclass
from itertools import pairwise, product

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import HumanRendering, RenderCollection

from mage_envs import Game, GameSpec, State, list_games, load_game, make_game
from mage_envs.drawing import Block, Disc, Picture, Stroke, Text, kuhn, paint, sokoban, tictactoe
from mage_envs.drawing.picture import load_pygame
from mage_envs.env import TextGameEnv
from mage_envs.games.kuhn_poker import deals
from mage_envs.games.sokoban.level import parse_board
from mage_envs.games.tictactoe import board, winner
from mage_envs.testing import bare

pygame = load_pygame()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's own tests import its old registry
    from pettingzoo.test import render_test

GAMES = [name for name in list_games() if load_game(name).spec.has_pictures]
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


@pytest.fixture(autouse=True)
def _no_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


# -- shapes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "area"),
    [
        (Disc(30.3, 29.6, 20, WHITE), math.pi * 400),
        (Block(8.5, 10.25, 40, 30, colour=WHITE), 1200),
        (Block(8.5, 10.25, 40, 30, colour=WHITE, corner=10), 1200 - (4 - math.pi) * 100),
        (Stroke(((15, 15), (45, 45)), 8, WHITE), math.dist((15, 15), (45, 45)) * 8 + math.pi * 16),
        (Stroke(((20.2, 20.7), (20.2, 20.7)), 12, WHITE), math.pi * 36),
    ],
)
def test_a_shape_covers_its_area(shape, area):
    image = paint(Picture(60, 60, BLACK, (shape,)))
    assert image.shape == (60, 60, 3)
    assert image.dtype == np.uint8
    assert image[..., 0].sum() / 255 == pytest.approx(area, rel=0.04)


def test_opacity_mixes_and_edges_fade():
    half = paint(Picture(20, 20, (100, 0, 0), (Block(0, 0, 20, 20, colour=(200, 100, 50), opacity=0.5),)))
    assert half[10, 10].tolist() == pytest.approx([150, 50, 25], abs=1)
    row = paint(Picture(60, 9, BLACK, (Block(-40, -40, 70, 90, colour=WHITE, blur=20),)))[4, :, 0].astype(int)
    assert (row[0], row[59]) == (255, 0)
    assert all(left_value >= right_value for left_value, right_value in pairwise(row))
    assert 120 < row[29] < 140


def test_shapes_outside_of_the_picture_are_cut():
    nothing = paint(
        Picture(10, 10, BLACK, (Disc(-50, 5, 9, WHITE), Block(5, 30, 4, 4, colour=WHITE), Disc(5, -90, 3, WHITE)))
    )
    assert not nothing.any()
    assert paint(Picture(10, 10, BLACK, (Disc(0, 0, 30, WHITE),))).all()


@pytest.mark.parametrize(("text", "height"), [("H", 36), ("E", 12), ("KL", 24)])
def test_a_text_is_centred_and_its_capitals_have_their_height(text, height):
    image = paint(Picture(90, 80, BLACK, (Text(text, 45, 40, height, colour=WHITE),)))[..., 0]
    rows, columns = np.nonzero(image > 100)
    assert image.max() == 255
    assert rows.max() + 1 - rows.min() == pytest.approx(height, abs=2)
    assert (rows.min() + rows.max() + 1) / 2 == pytest.approx(40, abs=1.5)
    assert (columns.min() + columns.max() + 1) / 2 == pytest.approx(45, abs=2)


def test_other_texts_look_otherwise():
    texts = ("You", "you", "You!", "√", "")
    images = {paint(Picture(90, 60, BLACK, (Text(text, 45, 30, 20, colour=WHITE),))).tobytes() for text in texts}
    assert len(images) == len(texts)


# -- games -----------------------------------------------------------------------------------------------------


def nodes(start):
    reached, waiting = [], [start]
    while waiting:
        reached.append(waiting.pop())
        waiting += [reached[-1].after(action) for action in reached[-1].legal_actions]
    return reached


@pytest.mark.parametrize("reveal", ["showdown", "always"])
def test_kuhn_shows_what_the_seat_may_see_and_no_more(reveal):
    pictures: dict[str, set[Picture]] = {}
    for (_, start), player in product(deals(reveal == "always"), (0, 1)):
        for state in nodes(start):
            pictures.setdefault(state.observation(player), set()).add(state.picture(player))
    assert all(len(same) == 1 for same in pictures.values()), "a picture tells what the text does not"
    shown_pictures = [next(iter(same)) for text, same in pictures.items() if "The opponent had" in text]
    assert len(shown_pictures) == len(set(shown_pictures)) == (60 if reveal == "always" else 36)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("PrisonersDilemma", {"rounds": 2, "noise": 0.2}, 1 + 4 + 16),
        ("Ultimatum", {"offers": 2, "pie": 4}, 1 + 4 + 5 + 5 * 4 + 5 * 5),
    ],
)
def test_a_picture_shows_the_facts_of_the_text(name, options, count):
    for player in (0, 1):
        pictures: dict[str, set[Picture]] = {}
        for _, start in make_game(name, **options).initial_states():
            for state in nodes(start):
                pictures.setdefault(state.observation(player), set()).add(state.picture(player))
        assert all(len(same) == 1 for same in pictures.values()), "a picture tells what the text does not"
        assert len({next(iter(same)) for same in pictures.values()}) == count


def test_kuhn_counts_the_chips():
    def chips(picture):
        return sum(1 for shape in picture.shapes if isinstance(shape, Disc) and shape.radius == 14 and not shape.blur)

    assert chips(kuhn.hand("Q", None, (), None, "", acts_first=True)) == 2
    assert chips(kuhn.hand("Q", None, ((True, "check"), (False, "bet")), None, "", acts_first=True)) == 3
    assert chips(kuhn.hand("Q", "J", ((False, "bet"), (True, "call")), True, "", acts_first=False)) == 4


def lit(picture):
    return [s for s in picture.shapes if isinstance(s, Block) and s.colour == tictactoe.TILE_WON]


def test_tictactoe_marks_the_winning_line():
    for cells in ("XOOXX.O.X", "XXXOO....", "XOX.OX.O."):
        assert winner(cells) is not None
        pictures = [board(cells).picture(seat) for seat in (0, 1)]
        assert [len(lit(picture)) for picture in pictures] == [3, 3]
        assert pictures[0].shapes != pictures[1].shapes, "one is told of a win, the other of a loss"
    assert not lit(board("." * 9).picture(0))


def test_sokoban_colours_its_cells():
    rows = ("# # # # # #", "# P X _ _ #", "# _ √ O _ #", "# _ _ # # #", "# # # # # #")
    level = parse_board("\n".join(f"Row {number}: {row}" for number, row in enumerate(rows, 1)))
    image = paint(sokoban.board(level, level.boxes, level.player))
    assert image.shape == (5 * sokoban.CELL, 6 * sokoban.CELL, 3)

    def at(row, column, across=0.5, down=0.5):
        return tuple(image[int((row + down) * sokoban.CELL), int((column + across) * sokoban.CELL)])

    assert at(1, 4, 0.5, 0.7) in sokoban.FLOOR
    assert at(2, 3) == sokoban.TARGET
    assert at(1, 2, 0.2, 0.5) == sokoban.CRATE[1]
    assert at(2, 2, 0.2, 0.5) == sokoban.PLACED[1]
    assert at(1, 1, 0.5, 0.75) == sokoban.SKIN
    assert at(4, 5) == sokoban.NIGHT, "a wall that touches no floor is left dark"
    empty = paint(sokoban.board(level._replace(targets=0), 0, 0))
    assert (image != empty).any()


def test_the_player_on_a_target_looks_otherwise():
    level = make_game("Sokoban").initial_state(np.random.default_rng(0)).room.level
    on = next(1 << cell for cell in range(36) if level.targets >> cell & 1)
    off = next(1 << cell for cell in range(36) if (level.floor & ~level.targets) >> cell & 1)
    rings = [
        [s for s in sokoban.board(level, level.boxes, cell).shapes if isinstance(s, Disc) and s.radius == 29]
        for cell in (on, off)
    ]
    assert [len(ring) for ring in rings] == [1, 0]


# -- environments ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*For Box (action|observation) spaces.*")
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
@pytest.mark.parametrize("env_id", [f"mage/{game}-{kind}v0" for game in GAMES for kind in ("", "Meta-")])
def test_gymnasiums_own_render_check(env_id):
    env = gym.make(env_id)
    assert env.metadata["render_modes"] == ["ansi", "rgb_array", "human"]
    check_env(bare(env))


@pytest.mark.parametrize("game", GAMES)
def test_pettingzoos_own_render_test(game):
    pettingzoo_env = pettingzoo.make("aec", f"mage/{game}-v0")
    assert pettingzoo_env.metadata["render_modes"] == ["ansi", "rgb_array", "human"]
    render_test(lambda render_mode: pettingzoo.make("aec", f"mage/{game}-v0", render_mode=render_mode))


def test_the_same_seed_draws_the_same_bytes_in_any_process():
    script = f"""
import hashlib, gymnasium as gym, mage_envs
for game in {GAMES!r}:
    env = gym.make(f"mage/{{game}}-v0", render_mode="rgb_array")
    env.reset(seed=5)
    print(hashlib.sha256(env.render().tobytes() + env.render().tobytes()).hexdigest())
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": "."},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert [len(digest) for digest in outputs.pop().split()] == [64] * len(GAMES)


def surface():
    return pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)


@pytest.mark.parametrize("env_id", ["mage/KuhnPoker-v0", "mage/KuhnPoker-Meta-v0", "mage/Sokoban-v0"])
def test_the_window_follows_reset_and_step_and_closes(env_id):
    window_env, image_env = gym.make(env_id, render_mode="human"), gym.make(env_id, render_mode="rgb_array")
    for env in (window_env, image_env):
        env.reset(seed=3)
    assert (surface() == image_env.render()).all()
    first_image = image_env.render()
    action = image_env.get_wrapper_attr("hand").state.legal_actions[0]
    for env in (window_env, image_env):
        env.step(f"<action>{action}</action>" if "Meta" in env_id else action)
    assert (surface() == image_env.render()).all()
    assert window_env.render() is None
    assert first_image.shape == image_env.render().shape
    window_env.close()
    assert not pygame.display.get_init()
    window_env.close()
    window_env.reset(seed=3)
    assert (surface() == first_image).all()
    window_env.close()


def test_human_and_image_modes_play_the_same_hands():
    texts = []
    for mode in ("human", "rgb_array"):
        env = gym.make("mage/KuhnPoker-v0", render_mode=mode)
        texts.append([env.reset(seed=seed)[0] for seed in (1, 2, 3)])
        env.close()
    assert texts[0] == texts[1]


def test_pictures_show_the_hand_that_is_dealt_and_before_the_first_there_is_nothing():
    env = gym.make("mage/KuhnPoker-Meta-v0", render_mode="rgb_array", opponent="kuhn/passive", seat="first")
    with pytest.raises(gym.error.ResetNeeded, match=r"reset\(\)"):
        env.unwrapped.render()
    env.reset(seed=0)
    image_before = env.render()
    _, _, _, _, info = env.step("<action>bet</action>")
    assert (info["phase"], info["episode_end"]) == ("reflect", True)
    state = env.unwrapped.hand.state
    assert state.player == 0
    assert (env.render() == paint(state.picture(0))).all()
    env.step("<remark>it folds</remark>")
    assert env.unwrapped.hand.state is state
    assert (env.render() != image_before).any() or state.observation(0) == "Your card: K. You act first. No action yet."


@dataclass(frozen=True)
class Count(State):
    """How far it is."""

    remaining: int = 3
    returns = (0.0,)

    @property
    def player(self):
        return 0 if self.remaining else None

    @property
    def legal_actions(self):
        return (str(self.remaining),) if self.remaining else ()

    def observation(self, seat):
        return f"{self.remaining} to go"

    def after(self, action):
        return Count(self.remaining - 1)


class Countdown(Game):
    """A game of text alone: says 3, 2, 1."""

    spec = GameSpec(name="Countdown", players=1, rules="Count down from 3.")

    def initial_state(self, rng):
        return Count()


def test_a_game_without_a_picture_does_not_pretend():
    game = Countdown()
    env = TextGameEnv(game, None, render_mode="ansi")
    assert env.metadata["render_modes"] == ["ansi"]
    for mode in ("rgb_array", "human"):
        with pytest.raises(ValueError, match=rf"render_mode='{mode}': Countdown has no picture, only text: "):
            TextGameEnv(game, None, render_mode=mode)
    with pytest.raises(ValueError, match=r"^render_mode='hologram': choose one of: None, 'ansi'.$"):
        TextGameEnv(game, None, render_mode="hologram")
    with pytest.raises(TypeError, match="has no picture"):
        Count().picture(0)


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_without_pygame_the_error_names_the_extra(monkeypatch, mode):
    monkeypatch.setitem(sys.modules, "pygame", None)
    for env_id in ("mage/Sokoban-v0", "mage/Sokoban-Meta-v0"):
        with pytest.raises(ImportError, match=r'^Pictures need pygame-ce\. .* pip install "mage-envs\[render\]"$'):
            gym.make(env_id, render_mode=mode)
    assert gym.make("mage/Sokoban-v0", render_mode="ansi").reset(seed=0)


def test_pygame_in_place_of_pygame_ce_is_named(monkeypatch):
    monkeypatch.delattr(pygame, "IS_CE")
    with pytest.raises(ImportError, match="but pygame is installed in its place"):
        gym.make("mage/Sokoban-v0", render_mode="rgb_array")


def test_images_need_no_display_and_survive_the_end_of_pygame(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "none such")
    env = gym.make("mage/KuhnPoker-v0", render_mode="rgb_array")
    env.reset(seed=3)
    first_image = env.render()
    # Gymnasium's HumanRendering quits all of pygame when it closes.
    pygame.quit()
    assert (env.render() == first_image).all()


def test_gymnasiums_wrappers_take_the_images():
    env = RenderCollection(gym.make("mage/Sokoban-Meta-v0", render_mode="rgb_array"))
    assert env.metadata["render_fps"] == 4
    env.reset(seed=0)
    env.step("<action>up, left</action>")
    assert [frame.shape for frame in env.render()] == [(384, 384, 3)] * 2
    rendered = HumanRendering(gym.make("mage/TicTacToe-v0", render_mode="rgb_array"))
    rendered.reset(seed=0)
    assert surface().any()
    rendered.close()
