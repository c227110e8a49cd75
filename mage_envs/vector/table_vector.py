"""`TableVectorEnv`: n hands of a table game at once, as NumPy arrays; the same bytes as n `TableEnv`s.

What is rare (another spelling, an illegal action, the last turn, options of `reset`) goes through a real `TableEnv` of
the row, its guest, which continues from the row's position and draws from the row's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mage_envs.core import HandResult, StatePolicy
from mage_envs.env import Seated
from mage_envs.games.table import TableNode
from mage_envs.randomness import Uniforms
from mage_envs.table_env import TableEnv
from mage_envs.vector.positions import OVER, UNKNOWN, ReplyArrays, UniformRows, cuts_of, objects, positions_of
from mage_envs.vector.text_vector import Batch, Infos, TextVectorEnv, masked, only


class GuestEnv(TableEnv):
    """A `TableEnv` that takes a row over, and gives it back."""

    @classmethod
    def like(cls, env: TableEnv) -> GuestEnv:
        """One with the parts and options of `env`."""
        return cls(
            env.game,
            env.opponents,
            seat=env.seat_mode,
            max_turns=env.max_turns,
            on_invalid="forfeit" if env.forfeits else "retry",
            timeout_value=env.timeout_value,
        )

    def draw_from(self, generator: np.random.Generator, random: Callable[[], float]) -> None:
        """Takes all randomness from there: uniform draws from `random`, everything else from `generator`."""
        self.np_random = generator
        self._random = random
        self._draws = Uniforms(random)

    def place(self, node: TableNode, seat: int, seated: Seated, turns: int) -> None:
        """Continues a hand that came to `node` with the learner's answer number `turns`."""
        self.seated, self._replies = seated, seated.replies
        self.seat = seat
        self.over = self.timed_out = False
        self.hands = []
        self._streams = None
        self._turns = turns
        self.game.node = node

    @property
    def turns(self) -> int:
        """The learner's answers in this hand."""
        return self._turns


class TableVectorEnv(TextVectorEnv):
    """`num_envs` hands of a two-player `TableGame`, every opponent of whose pool is tabulated.

    Throughout: n = num_envs rows; `rows` are distinct row numbers.
    """

    def __init__(
        self,
        make_env: Callable[[], gym.Env[str, str]],
        env: TableEnv,
        seated: Sequence[Seated],
        num_envs: int,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """`env`: one that `make_env` made. `seated`: all that its opponents' source may draw, in the order of rising
        draws; see `is_tabulated`."""
        super().__init__(num_envs, autoreset_mode)
        self._describe(env.metadata, None)
        self._make_env = make_env
        game, roots = env.game, [node for _, node in env.game.roots()]
        self._positions = positions = positions_of(tuple(roots))
        self._columns = positions.columns
        self._root_cuts = cuts_of(lambda draw: positions.number[game.root_at(draw)], len(roots))
        place = {id(each): index for index, each in enumerate(seated)}
        self._opponent_cuts = cuts_of(lambda draw: place[id(env.opponents.draw(Uniforms(lambda: draw)))], len(seated))
        self._seated = seated
        self._names = objects([each.name for each in seated])
        self._replies = ReplyArrays(positions, [cast(StatePolicy, each.policies[0]) for each in seated])
        self._successes = np.array(
            [
                node.player is None and game.is_success([HandResult(node.returns[seat], False, seat)])
                for node in positions.nodes
                for seat in (0, 1)
            ]
        )
        """(2 N,) in the order of `Positions.texts`."""
        self._always = {"first": 0, "second": 1}.get(env.seat_mode)
        self._max_turns = env.max_turns
        self._random = UniformRows(num_envs)
        self._guests: dict[int, GuestEnv] = {}
        self._everybody = np.arange(num_envs)
        self._position = np.zeros(num_envs, dtype=np.int64)
        self._seat = np.zeros(num_envs, dtype=np.int64)
        self._opponent = np.zeros(num_envs, dtype=np.int64)
        """Index into `seated`."""
        self._turns = np.zeros(num_envs, dtype=np.int64)
        self._away = np.zeros(num_envs, dtype=np.bool_)
        """Rows whose episode is their guest's from its first move."""

    # -- starting -------------------------------------------------------------------------------------------

    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[list[str], Infos]:
        for row, seed in zip(rows, seeds, strict=True):
            self._random.seed(row, seed)
        if options:
            return self._begin_by_guests(rows, options)
        chosen = np.array(rows)
        self._deal(chosen)
        began = np.zeros(self.num_envs, dtype=np.bool_)
        began[chosen] = True
        return self._texts_now()[chosen].tolist(), self._told(began, objects([None] * self.num_envs))

    def _begin_by_guests(self, rows: Sequence[int], options: dict[str, Any]) -> tuple[list[str], Infos]:
        started = [self._guest(row).reset(options=options) for row in rows]
        self._away[list(rows)] = True
        return [text for text, _ in started], self._fold((row, info) for row, (_, info) in zip(rows, started))

    def _deal(self, rows: NDArray[np.intp]) -> None:
        """Starts a hand in each row: seat, opponent, root, the opponent's first moves; in the order of `TableEnv`."""
        draw = self._random.draw
        self._seat[rows] = (draw(rows) * 2).astype(np.int64) if self._always is None else self._always
        if len(self._opponent_cuts):
            self._opponent[rows] = np.searchsorted(self._opponent_cuts, draw(rows), side="right")
        if len(self._root_cuts):
            self._position[rows] = np.searchsorted(self._root_cuts, draw(rows), side="right")
        else:
            self._position[rows] = 0
        self._turns[rows] = 0
        self._away[rows] = False
        self._respond(rows)

    def _guest(self, row: int) -> GuestEnv:
        guest = self._guests.get(row)
        if guest is None:
            env = self._make_env()
            assert isinstance(env, TableEnv)
            guest = self._guests[row] = GuestEnv.like(env)
        generator = self._random.generators[row]
        assert generator is not None
        guest.draw_from(generator, partial(self._random.one, row))
        return guest

    # -- stepping -------------------------------------------------------------------------------------------

    def _advance(self, answers: list[str]) -> Batch:
        positions, count = self._positions, self.num_envs
        columns = np.fromiter(map(self._columns.__getitem__, answers), np.intp, count)
        after = positions.after[self._position, columns]
        odd = (after == UNKNOWN) | (self._turns + 1 >= self._max_turns) | self._away
        waiting = self._ended
        rows = self._everybody
        if waiting.any() or odd.any():
            odd &= ~waiting
            rows = np.flatnonzero(~(odd | waiting))
        self._position[rows] = after[rows]
        self._turns[rows] += 1
        self._respond(rows)
        reasons = objects([None] * count)
        by_guests = (
            [(row, self._step_guest(row, answers[row])) for row in np.flatnonzero(odd).tolist()]
            if len(rows) < count
            else []
        )
        ended = (positions.player[self._position] == OVER) & ~waiting
        if waiting.any():
            self._deal(np.flatnonzero(waiting))
        places = 2 * self._position + self._seat
        rewards = np.where(ended, positions.returns[places], 0.0)
        texts = positions.texts[places]
        final = {
            "success": self._successes[places] & ended,
            "timeout": np.zeros(count, dtype=np.bool_),
            "opponent": self._names[self._opponent],
        }
        legal = positions.legal[self._position]
        for row, (text, reward, over, _, info) in by_guests:
            texts[row], rewards[row], ended[row] = text, reward, over
            legal[row], reasons[row] = info["legal_actions"], info["invalid_reason"]
            if over:
                for key, values in final.items():
                    values[row] = info[key]
        return self._conclude(texts, rewards, ended, legal, reasons, final)

    def _conclude(
        self,
        texts: NDArray[np.object_],
        rewards: NDArray[np.float64],
        ended: NDArray[np.bool_],
        legal: NDArray[np.object_],
        reasons: NDArray[np.object_],
        final: dict[str, NDArray[Any]],
    ) -> Batch:
        """The batch, after the autoreset of SAME_STEP. `final`: what info tells of the rows in `ended` alone."""
        everybody = np.ones(self.num_envs, dtype=np.bool_)
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        if not ended.any():
            infos = masked({"seat": self._seat.copy(), "legal_actions": legal, "invalid_reason": reasons}, everybody)
            return texts.tolist(), rewards, ended, truncated, infos
        final["opponent"][~ended] = None
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            infos = masked({"seat": self._seat.copy(), "legal_actions": legal, "invalid_reason": reasons}, everybody)
            return texts.tolist(), rewards, ended, truncated, infos | masked(final, ended)
        told = {
            "seat": np.where(ended, self._seat, 0),
            "legal_actions": only(ended, legal),
            "invalid_reason": only(ended, reasons),
        }
        infos = masked({"final_obs": only(ended, texts), "final_info": masked(told | final, ended)}, ended)
        rows = np.flatnonzero(ended)
        self._deal(rows)
        texts[rows] = self._texts_now()[rows]
        legal[rows] = self._positions.legal[self._position[rows]]
        reasons[rows] = None
        infos |= masked({"seat": self._seat.copy(), "legal_actions": legal, "invalid_reason": reasons}, everybody)
        return texts.tolist(), rewards, ended, truncated, infos

    def _respond(self, rows: NDArray[np.intp]) -> None:
        """The opponents' replies, up to the learner's turn or the end."""
        while len(rows):
            player = self._positions.player[self._position[rows]]
            rows = rows[(player != OVER) & (player != self._seat[rows])]
            if len(rows):
                opponents = self._opponent[rows]
                drawing = self._replies.draws[opponents]
                draws = self._random.draw(rows[drawing]) if self._replies.some_draw else None
                self._position[rows] = self._replies.reply(opponents, self._position[rows], drawing, draws)

    def _step_guest(self, row: int, answer: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        guest = self._guest(row)
        if not self._away[row]:
            node = self._positions.nodes[int(self._position[row])]
            seated = self._seated[int(self._opponent[row])]
            guest.place(node, int(self._seat[row]), seated, int(self._turns[row]))
        told = guest.step(answer)
        self._seat[row] = guest.seat
        if not self._away[row]:
            self._position[row] = self._positions.number[guest.game.node]
            self._turns[row] = guest.turns
        return told

    # -- what rows tell -------------------------------------------------------------------------------------

    def _texts_now(self) -> NDArray[np.object_]:
        return cast("NDArray[np.object_]", self._positions.texts[2 * self._position + self._seat])

    def _told(self, mask: NDArray[np.bool_], reasons: NDArray[np.object_]) -> Infos:
        """The infos of rows that just began; nothing is told of the others."""
        return masked(
            {
                "seat": np.where(mask, self._seat, 0),
                "legal_actions": only(mask, self._positions.legal[self._position]),
                "invalid_reason": reasons,
            },
            mask,
        )


def is_tabulated(seated: Sequence[Seated]) -> bool:
    """Whether every opponent is a table of replies and nothing else, and comes once in the order of draws."""
    tables = all(each.replies is not None and not each.watching for each in seated)
    return tables and len({id(each) for each in seated}) == len(seated)
