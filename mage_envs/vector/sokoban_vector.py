"""`SokobanVectorEnv`: n levels of Sokoban at once, as NumPy arrays; the same bytes as n single environments.

Every row has a real environment, its guest, which makes the rooms and plays what is rare: illegal actions and an
episode's last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mage_envs.env import TextGameEnv
from mage_envs.games.sokoban.game import MOVES_PER_TURN, Sokoban
from mage_envs.games.sokoban.level import MOVES
from mage_envs.vector.boards import DEAD, Boards
from mage_envs.vector.text_vector import Batch, Infos, Texts, TextVectorEnv, masked, only

_TURNS = [moves for count in range(1, MOVES_PER_TURN + 1) for moves in product(range(len(MOVES)), repeat=count)]
_ILLEGAL = len(_TURNS)
_NO_MOVE = -1
_SEQUENCES = np.full((len(_TURNS) + 1, MOVES_PER_TURN), _NO_MOVE)
"""(turns + 1, MOVES_PER_TURN) the moves of each turn, in order, then _NO_MOVE."""
for _turn, _moves in enumerate(_TURNS):
    _SEQUENCES[_turn, : len(_moves)] = _moves


class TurnNumbers(dict[str, int]):
    """Action text to its number in `_SEQUENCES`."""

    def __init__(self, game: Sokoban) -> None:
        super().__init__((", ".join(MOVES[move] for move in moves), turn) for turn, moves in enumerate(_TURNS))
        self._game = game

    def __missing__(self, text: str) -> int:
        return self.get(self._game.canonical(text), _ILLEGAL)


class GuestSokoban(Sokoban):
    """A Sokoban that can continue from any position of its room."""

    @classmethod
    def like(cls, game: Sokoban) -> GuestSokoban:
        """One with the rooms of `game`."""
        guest = cls()
        guest._rooms = game._rooms
        return guest

    def place(self, boxes: int, player: int, executed: int) -> None:
        """Continues from there, after so many executed moves."""
        self._position, self.executed = self._place(boxes, player), executed


class GuestRoom(TextGameEnv):
    """The environment of a row."""

    game: GuestSokoban

    @classmethod
    def like(cls, env: TextGameEnv) -> GuestRoom:
        """One with the rooms and options of `env`."""
        assert isinstance(env.game, Sokoban)
        return cls(
            GuestSokoban.like(env.game),
            env.opponents,
            seat=env.seat_mode,
            max_turns=env.max_turns,
            on_invalid="forfeit" if env.forfeits else "retry",
            timeout_value=env.timeout_value,
        )

    def place(self, boxes: int, player: int, executed: int, turns: int) -> None:
        """Continues from there, after so many executed moves and answers."""
        self.game.place(boxes, player, executed)
        self._turns = turns


class SokobanVectorEnv(TextVectorEnv):
    """`num_envs` levels of Sokoban, one hand per episode; see `is_plain_sokoban`."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[str, str]],
        num_envs: int,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        super().__init__(num_envs, autoreset_mode)
        made = [make_env() for _ in range(num_envs)]
        self._guests = [GuestRoom.like(env) for env in made if isinstance(env, TextGameEnv)]
        self._describe(made[0].metadata, None)
        self._numbers = TurnNumbers(self._guests[0].game)
        self._max_turns = self._guests[0].max_turns
        self._boards = Boards(num_envs)
        self._turns = np.zeros(num_envs, dtype=np.int64)
        self._legal = np.fromiter((MOVES for _ in range(num_envs)), dtype=np.object_, count=num_envs)
        self._categories = np.full(num_envs, None, dtype=np.object_)

    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Texts, Infos]:
        started = [self._start(row, seed, options) for row, seed in zip(rows, seeds, strict=True)]
        return [text for text, _ in started], self._fold((row, info) for row, (_, info) in zip(rows, started))

    def _start(
        self, row: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        guest = self._guests[row]
        text, info = guest.reset(seed=seed, options=None if options is None else dict(options))
        self._boards.load(row, guest.game.room, text)
        self._turns[row] = 0
        self._categories[row] = guest.game.category()
        return text, info

    def _advance(self, answers: list[str]) -> Batch:
        boards, count, waiting = self._boards, self.num_envs, self._ended
        given: list[str] = (
            answers
            if not waiting.any()
            else ["" if over else answer for answer, over in zip(answers, waiting.tolist(), strict=True)]
        )
        numbers = np.fromiter(map(self._numbers.__getitem__, given), np.intp, count)
        rare = (numbers == _ILLEGAL) | (self._turns + 1 >= self._max_turns)
        rows = np.flatnonzero(~(rare | waiting))
        before = boards.boxes.copy(), boards.player.copy(), boards.executed.copy(), self._turns.copy()
        solved = self._move(rows, numbers[rows])
        rewards, ended = np.zeros(count), np.zeros(count, dtype=np.bool_)
        texts: dict[int, str] = {}
        told: list[tuple[int, dict[str, Any]]] = []
        for row in np.flatnonzero(rare & ~waiting).tolist() + rows[solved].tolist():
            boxes, player, executed, turns = (int(values[row]) for values in before)
            guest = self._guests[row]
            guest.place(boxes, 1 << player, executed, turns)
            text, rewards[row], ended[row], _, info = guest.step(answers[row])
            if ended[row] and self.autoreset_mode is AutoresetMode.SAME_STEP:
                told.append((row, {"final_obs": text, "final_info": info}))
                text, info = self._start(row)
            elif not ended[row]:
                self._turns[row] += 1
            texts[row] = text
            told.append((row, info))
        for row in np.flatnonzero(waiting).tolist():
            texts[row], info = self._start(row)
            told.append((row, info))
        shown = boards.texts()
        for row, text in texts.items():
            shown[row] = text
        infos = self._told(rows[~solved])
        overlay(infos, self._fold(told))
        return shown, rewards, ended, np.zeros(count, dtype=np.bool_), infos

    def _move(self, rows: NDArray[np.intp], turns: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Plays a legal turn in each of `rows`; returns which of them it solved. Further moves are not executed."""
        boards = self._boards
        self._turns[rows] += 1
        for moves in _SEQUENCES[turns].T:
            executing = (moves != _NO_MOVE) & (boards.placed[rows] < boards.boxes_in_all[rows])
            if not executing.any():
                break
            boards.move(rows[executing], moves[executing])
        solved: NDArray[np.bool_] = boards.placed[rows] == boards.boxes_in_all[rows]
        return solved

    def _told(self, rows: NDArray[np.intp]) -> Infos:
        """The infos of `rows`, whose episodes go on after a legal action."""
        if not len(rows):
            return {}
        count, boards = self.num_envs, self._boards
        mask = np.zeros(count, dtype=np.bool_)
        mask[rows] = True
        infos = masked(
            {
                "seat": np.zeros(count, dtype=np.int64),
                "legal_actions": only(mask, self._legal),
                "invalid_reason": np.full(count, None, dtype=np.object_),
                "metrics": {},
                "category": only(mask, self._categories),
            },
            mask,
        )
        distances = boards.distances(rows)
        alive = distances >= 0
        regrets = boards.executed[rows] + distances - boards.shortest[rows]
        for key, values, known in (
            ("distance_to_goal", distances, alive),
            ("dead", (distances == DEAD).astype(np.float64), ~np.isnan(distances)),
            ("regret", regrets, alive & ~np.isnan(regrets)),
        ):
            if known.any():
                column, told = np.zeros(count), np.zeros(count, dtype=np.bool_)
                column[rows[known]], told[rows[known]] = values[known], True
                infos["metrics"] |= {key: column, f"_{key}": told}
        return infos


def overlay(infos: Infos, more: Infos) -> None:
    """Adds to `infos` what `more` tells of other rows."""
    for key, values in more.items():
        if key not in infos:
            infos[key] = values
        elif isinstance(values, dict):
            overlay(infos[key], values)
        elif key.startswith("_"):
            infos[key] |= values
        else:
            mask = more[f"_{key}"]
            infos[key][mask] = values[mask]


def is_plain_sokoban(env: gym.Env[str, str]) -> bool:
    """Whether `SokobanVectorEnv` plays what `env` plays."""
    return type(env) is TextGameEnv and type(env.game) is Sokoban and env.hands_per_episode == 1
