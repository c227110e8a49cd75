"""`TextGameEnv`: one episode of a text game as a Gymnasium environment, the other seats taken by opponents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from mage_envs.core import HandResult, IllegalAction, Policy, RemembersMetaEpisode, SeesResults, TextGame, Turn
from mage_envs.drawing.screen import FPS, Screen
from mage_envs.games.table import TableGame
from mage_envs.randomness import FURTHER_OPPONENTS, GAME, OPPONENT, SharedStream, Streams, Uniforms
from mage_envs.replies import Replies
from mage_envs.spaces import FreeText
from mage_envs.text.parser import INVALID

SEATS = ("first", "second", "alternate", "fixed")
"""Seat of hand j: always first, always second, (seat0 + j) mod players, or seat0 throughout."""
ON_INVALID = ("retry", "forfeit")
"""An illegal action leaves the state and spends a turn, or loses the hand at the game's worst return."""


class OpponentFailure(RuntimeError):
    """An opponent raised, or answered with an illegal action."""


class Seated(NamedTuple):
    """The opponents of one episode or meta-episode: one policy per other seat, in playing order after the learner."""

    name: str
    policies: tuple[Policy, ...]
    draws: bool = True
    """False where every policy is deterministic, so that nobody needs a random stream."""
    watching: tuple[tuple[int, SeesResults], ...] = ()
    """Those of `policies` that are told how hands end, with their places."""
    remembering: tuple[RemembersMetaEpisode, ...] = ()
    """Those of `policies` that keep something between the hands of a meta-episode."""
    replies: Replies | None = None
    """The replies of a single opponent that is a function of the information state."""


class OpponentSource(Protocol):
    """Where an environment gets its opponents from."""

    def draw(self, rng: Uniforms | np.random.Generator) -> Seated:
        """Draws from the pool by `rng.random()`; a single opponent draws nothing."""
        ...

    def named(self, name: str) -> Seated:
        """The opponent of that registered name."""
        ...


def no_draw() -> float:
    """The `random` of a policy that declares never to draw."""
    raise OpponentFailure("An opponent that declares itself deterministic drew a random number.")


_IDLE = np.random.Generator(np.random.PCG64(0))
"""Handed to policies that declare never to use it."""


class TextGameEnv(gym.Env[str, str]):
    """One episode (of `hands_per_episode` hands) of `game` against opponents drawn from `opponents`.

    Action: the plain action text. Observation: the raw text for the learner's seat; when a hand ended within
    the step, its result comes first. Reward: the game's own return of each hand that ended in the step (chips;
    1/0/-1), else 0. An illegal action pays 0 and spends a turn. Running out of `max_turns` answers in a hand
    terminates the episode as a timeout; the running and the unplayed hands then count `timeout_value`.
    `info`: seat, legal_actions, invalid_reason; at the end also success, timeout and opponent; in games that have
    them, `metrics`, `task` (its id) and `category`.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": FPS}  # noqa: RUF012  (Gymnasium's annotation)
    """The class's; an instance has its game's modes."""
    option_keys: ClassVar[tuple[str, ...]] = ("opponent", "seat", "task")
    """What `reset(options=...)` may hold."""

    # What every turn touches lies together in the object (see MetaEpisode).
    __slots__ = (
        "_alternates", "_deal_episode", "_episode", "_first_seat", "_one_root", "_replies", "_streams", "_table_game",
        "_turns", "_uniform", "carried", "forfeits", "game", "hand_result", "hands", "hands_per_episode", "max_turns",
        "on_result", "over", "seat", "seated", "timed_out",
    )  # fmt: skip

    def __init__(
        self,
        game: TextGame,
        opponents: OpponentSource,
        *,
        seat: str = "alternate",
        hands_per_episode: int = 1,
        max_turns: int | None = None,
        on_invalid: str = "retry",
        timeout_value: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        check_choice("seat", seat, SEATS)
        check_choice("on_invalid", on_invalid, ON_INVALID)
        check_positive("hands_per_episode", hands_per_episode)
        self.game = game
        self.opponents = opponents
        self.seat_mode = seat
        self.hands_per_episode = hands_per_episode
        self.max_turns = game.max_turns if max_turns is None else max_turns
        check_positive("max_turns", self.max_turns)
        self.forfeits = on_invalid == "forfeit"
        self.timeout_value = timeout_value
        self.render_mode = render_mode
        self._screen = Screen(game, render_mode)
        self.metadata = self._screen.metadata
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.over: bool = True
        self.hands: list[HandResult] = []
        """Results of the hands of the running episode."""
        self.seated = Seated("", ())
        self.seat = 0
        """The learner's seat in the running hand."""
        self.timed_out = False
        self.hand_result = ""
        """The learner's last view of the hand that ended last."""
        self.carried = ""
        """The results of the hands that ended with the last answer, where the episode goes on."""
        self._turns = 0
        self._streams: Streams | None = None
        self._table_game = game if isinstance(game, TableGame) and game.is_plain() else None
        roots = self._table_game.all_roots() if self._table_game is not None else ()
        self._one_root = roots[0] if len(roots) == 1 else None
        self._can_tabulate = bool(roots) and not game.perfect_information
        rules = type(game)
        self._tells_metrics = rules.metrics is not TextGame.metrics
        self._tells_task = rules.task_id is not TextGame.task_id
        self._tells_category = rules.category is not TextGame.category
        self.on_result: Callable[[Turn], None] | None = None
        """Called with the learner's view of each hand that was played to its end, where a policy learns from it."""
        self._chosen: str | None = None
        """The task that the last reset asked for."""
        self._replies: Replies | None = None
        self._uniform: Callable[[], float] = no_draw

    # -- the episode, driven by `reset`/`step` here and by MetaEpisode --------------------------------------

    def draw_seat(self, rng: Uniforms | np.random.Generator) -> int:
        """The seat of the first hand."""
        if self.seat_mode == "first" or self.game.num_players == 1:
            return 0
        if self.seat_mode == "second":
            return 1
        return int(rng.random() * self.game.num_players)

    def begin(self, seated: Seated, seat0: int, streams: Streams, episode: int = 0, deal_episode: int = 0) -> None:
        """Starts episode `episode` of a meta-episode that began in seat `seat0`.

        `deal_episode` keys the game's chance: equal numbers deal equal hands.
        """
        self.seated = seated
        self._streams = streams
        self._episode = episode
        self._deal_episode = deal_episode
        self._alternates = self.seat_mode == "alternate" and self.game.num_players > 1
        self._first_seat = seat0 + episode * self.hands_per_episode if self._alternates else seat0
        self.hands = []
        self.over = False
        self.timed_out = False
        self.hand_result = ""
        self.carried = ""
        self._replies = seated.replies if self._can_tabulate else None
        self._uniform = no_draw
        self._start_hand(0)

    def roles(self) -> tuple[int, ...]:
        """Roles of the streams of which a hand takes the first values alone, so that they are worth preparing."""
        if self._table_game is None:
            return ()
        return (OPPONENT,) if self._one_root is not None else (GAME, OPPONENT)

    def seat_of(self, hand: int) -> int:
        """The learner's seat in a hand of this episode: hand j of the meta-episode has seat (seat0 + j) mod players."""
        return (self._first_seat + hand) % self.game.num_players if self._alternates else self._first_seat

    def _start_hand(self, hand: int) -> None:
        streams, table_game = self._streams, self._table_game
        assert streams is not None
        self.seat = seat = self.seat_of(hand)
        self._turns = 0
        if table_game is not None:
            root = self._one_root or table_game.root_at(streams.first(GAME, self._deal_episode, hand))
            if self._replies is not None:
                if self.seated.draws:
                    self._uniform = streams.uniforms(OPPONENT, self._episode, hand)
                table_game.node = root
                if root.player != seat:
                    self._advance()
                return
            table_game.start(root)
        else:
            self.game.reset(streams.stream(GAME, self._deal_episode, hand))
        for index, policy in enumerate(self.seated.policies):
            role = OPPONENT if index == 0 else FURTHER_OPPONENTS + index
            policy.reset(streams.stream(role, self._episode, hand) if self.seated.draws else _IDLE)
        if self.game.current_player() != seat:
            self._advance()

    def _advance(self) -> None:
        """Lets the opponents play until it is the learner's turn or the hand is over."""
        seat, table_game = self.seat, self._table_game
        if self._replies is not None and table_game is not None:
            node = table_game.node
            if node.player is not None:
                node = table_game.node = self._replies.respond(node, seat, self._uniform)
            if node.player is None:
                self._end_hand(node.returns[seat], node.observations[seat])
            return
        game = self.game
        player = game.current_player()
        while player != seat:
            if player is None:
                self._end_hand(game.returns()[seat], game.observe(seat))
                return
            seated = self.seated
            policy = seated.policies[(player - seat - 1) % game.num_players]
            try:
                game.apply(policy.act(game.turn(player, self._episode)))
            except Exception as error:
                raise OpponentFailure(f"Opponent {seated.name!r} failed in {game.name}: {error}") from error
            player = game.current_player()

    def _end_hand(self, value: float, result: str) -> None:
        game = self.game
        self.hands.append(HandResult(value, False, self.seat, game.won(self.seat)))
        self.hand_result = result
        if (self.seated.watching or self.on_result is not None) and game.current_player() is None:
            for place, policy in self.seated.watching:
                policy.see_result(game.turn((self.seat + 1 + place) % game.num_players, self._episode))
            if self.on_result is not None:
                self.on_result(game.turn(self.seat, self._episode))
        if len(self.hands) >= self.hands_per_episode:
            self.over = True
        else:
            self.carried = f"{self.carried}{result}\n\n"
            self._start_hand(len(self.hands))

    def time_out(self) -> None:
        """Ends the episode as a timeout: the running and every unplayed hand count `timeout_value`.

        The running hand counts what the game says of a hand that is stopped, where it says something.
        """
        value = self.game.return_if_stopped(self.seat)
        for hand in range(len(self.hands), self.hands_per_episode):
            self.hands.append(HandResult(self.timeout_value if value is None else value, True, self.seat_of(hand)))
            value = None
        self.hand_result = "You ran out of turns: the episode is over and not won."
        self.over = self.timed_out = True

    def play(self, action: str) -> str | None:
        """Plays the learner's action; returns None, or why it counts as invalid."""
        self.carried = ""
        self._turns += 1
        hand = len(self.hands)
        try:
            self.game.apply(action)
        except IllegalAction:
            return self._refuse()
        self._advance()
        if self._turns >= self.max_turns and len(self.hands) == hand:
            self.time_out()
        return None

    def _refuse(self) -> str:
        """What an illegal action costs."""
        if self.forfeits:
            self._end_hand(self.game.min_return, "Your answer was not a legal action: you forfeit the hand.")
        elif self._turns >= self.max_turns:
            self.time_out()
        return INVALID

    def observation(self) -> str:
        """The raw text for the learner now."""
        text = self.hand_result if self.over else self.game.observe(self.seat)
        return self.carried + text if self.carried else text

    def _is_over(self) -> bool:
        return self.over

    def turn(self) -> Turn:
        """The learner's turn."""
        return self.game.turn(self.seat, self._episode)

    def succeeded(self) -> bool:
        """Whether the finished episode is a success."""
        return self.game.is_success(self.hands)

    # -- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts an episode. `options`: `opponent` (registered name), `seat` (of the first hand), `task` (its id)."""
        super().reset(seed=seed)
        rng = self.np_random
        name, seat = self.read_options(options)
        seat0 = self.draw_seat(rng)
        seated = self.opponents.draw(rng)
        if name is not None:
            seated = self.opponents.named(name)
        for policy in seated.remembering:
            policy.begin_meta_episode()
        self.begin(seated, seat0 if seat is None else seat, SharedStream(rng))
        self.refresh()
        info = {"seat": self.seat, "legal_actions": self._legal(), "invalid_reason": None}
        return self.observation(), self.tell(info)

    def tell(self, info: dict[str, Any]) -> dict[str, Any]:
        """`info`, to which the game's metrics, task and category were added where it has some."""
        if self._tells_metrics:
            info["metrics"] = dict(self.game.metrics())
        if self._tells_task:
            info["task"] = self.game.task_id()
        if self._tells_category:
            info["category"] = self.game.category()
        return info

    def read_options(self, options: dict[str, Any] | None) -> tuple[str | None, int | None]:
        """Reads the options of `reset`: tells the game the task; returns opponent and seat. Raises for unknown keys."""
        given = options or {}
        if unknown := sorted(key for key in given if key not in self.option_keys):
            raise ValueError(f"reset(options=...) has unknown keys {unknown}; known: {', '.join(self.option_keys)}.")
        seat, players = given.get("seat"), self.game.num_players
        if seat is not None and seat not in range(players):
            raise ValueError(f"reset(options={{'seat': {seat!r}}}) must be a seat from 0 to {players - 1}.")
        task = given.get("task")
        if task != self._chosen:
            self.game.choose(task)
            self._chosen = task
        return given.get("opponent"), seat

    def _legal(self) -> tuple[str, ...]:
        return () if self.over else self.game.legal_actions()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise gym.error.ResetNeeded("The episode is over (or was never started): call reset() before step().")
        done = len(self.hands)
        reason = self.play(action)
        reward = 0.0
        if len(self.hands) > done:
            reward = sum([hand.value for hand in self.hands[done:]])
        if self.render_mode == "human":
            self.refresh()
        if not self._is_over():
            info = {"seat": self.seat, "legal_actions": self.game.legal_actions(), "invalid_reason": reason}
            return self.observation(), reward, False, False, self.tell(info)
        return self.observation(), reward, True, False, self.tell(self._final_info(reason))

    def _final_info(self, reason: str | None) -> dict[str, Any]:
        return {
            "seat": self.seat,
            "legal_actions": (),
            "invalid_reason": reason,
            "success": self.succeeded(),
            "timeout": self.timed_out,
            "opponent": self.seated.name,
        }

    def render(self) -> Any:
        """Mode `ansi`: the observation; `rgb_array`: an image; `human`: shows that in a window, as each step does."""
        if self.render_mode == "ansi":
            return self.observation()
        if self.render_mode == "rgb_array":
            if self.over and not self.hands:
                raise gym.error.ResetNeeded("There is nothing to draw before the first episode: call reset() first.")
            return self._screen.image(self.seat)
        self.refresh()
        return None

    def refresh(self) -> None:
        """Shows the game in the window, in mode `human`, once there is one to show."""
        if self.render_mode == "human" and not (self.over and not self.hands):
            self._screen.show(self.seat)

    def close(self) -> None:
        """Closes the window, if one is open; it opens again with the next reset or step."""
        self._screen.close()


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises ValueError where an option has an unknown value."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(map(repr, choices))}.")


def check_positive(name: str, value: int) -> None:
    """Raises ValueError unless `value` is a positive whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
