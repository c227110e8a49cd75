"""`MetaEpisode`: several episodes against one unknown opponent or of one task, with reflections in between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from mage_envs.core import Turn
from mage_envs.env import Seated, TextGameEnv, check_choice, check_positive
from mage_envs.randomness import POOL, KeyedStreams, Uniforms, prepare
from mage_envs.spaces import FreeText
from mage_envs.text.generation import Message
from mage_envs.text.parser import INVALID, LENGTH, OVERFLOW, REMARK_LIMIT, Reply, parse_tag
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, PromptStyle, TurnRecord
from mage_envs.text.styles import as_style
from wrappers.memory import MemoryStrategy, MemoryView, as_memory
from wrappers.protocol import Protocol, as_protocol
from wrappers.results import Asked, EpisodeResult, Outcome, result_of

if TYPE_CHECKING:
    from wrappers.walk import TableWalk

CONTEXTS = ("rebuilt", "conversation")
"""`rebuilt`: every call is one fresh user message; `conversation`: turns are appended to one chat."""
_SHORT = 200
"""Longest message, in characters, of which equal ones are one object."""


_short = lru_cache(maxsize=4096)(Message)


def message(role: str, content: str) -> Message:
    """A message; short ones that are equal are one object."""
    return _short(role, content) if len(content) <= _SHORT else Message(role, content)


class MetaEpisode(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """K episodes of a `TextGameEnv` as one Gymnasium episode; one `step` is one model answer.

    Observation: the full prompt (in a conversation, all messages so far). Action: the model's whole reply.
    Reward: R_k at the last play step of episode k, else 0; penalties stay in `info`. `terminated` after the last
    episode, however it ended; never truncated here.

    `info` about the prompt that is shown: episode, phase (`play` or `reflect`), seat, hand, legal_actions, anchor.
    About the answer just given: invalid_reason (None, `invalid`, `length`, `overflow`), penalty (not negative),
    hand_reward (this step's share of R_k), hand_end, episode_end, and at an episode's end episode_return (R_k),
    episode_value (in the game's unit), success and timeout. `opponent` comes with the last step, or always with
    `reveal_opponent=True`.
    """

    # What every answer touches lies together in the object: with hundreds of them at once this saves a tenth.
    __slots__ = (
        "_chat", "_chat_told", "_dropped", "_first", "_invalid_penalty", "_length_penalty", "_memory_view", "_paid",
        "_seat0", "_seated", "_streams", "_turns", "converses", "episode", "episode_reward", "fresh_chat", "game_env",
        "hand", "memory", "messages", "num_episodes", "over", "phase", "protocol", "records", "replays", "shown",
        "style", "turn", "walk",
    )  # fmt: skip

    def __init__(
        self,
        env: TextGameEnv,
        *,
        num_episodes: int = 3,
        protocol: str | Protocol = "adaptive",
        memory: str | MemoryStrategy = "reflection",
        context: str = "rebuilt",
        style: str | PromptStyle = "prose",
        deal: str | None = None,
        reward: str | None = None,
        length_penalty: float | None = None,
        invalid_penalty: float | None = None,
        reveal_opponent: bool = False,
    ) -> None:
        """`deal` and `reward` override the protocol's; `reward` is a name in the game's `rewards`."""
        RecordConstructorArgs.__init__(
            self, num_episodes=num_episodes, protocol=protocol, memory=memory, context=context, style=style,
            deal=deal, reward=reward, length_penalty=length_penalty, invalid_penalty=invalid_penalty,
            reveal_opponent=reveal_opponent,
        )  # fmt: skip
        super().__init__(env)
        check_positive("num_episodes", num_episodes)
        check_choice("context", context, CONTEXTS)
        check_choice("deal", deal, (None, "fresh", "replay"))
        self.game_env = env
        self.num_episodes = num_episodes
        self.protocol = as_protocol(protocol)
        self.memory = as_memory(memory)
        self.style: PromptStyle = as_style(style)
        self.converses = context == "conversation"
        game = env.game
        name = reward or self.protocol.reward
        if name not in game.rewards:
            raise ValueError(f"reward={name!r} is unknown in {game.name}; choose one of: {', '.join(game.rewards)}.")
        self.episode_reward = game.rewards[name]
        self.replays = game.num_players == 1 or (deal or self.protocol.deal) == "replay"
        self._length_penalty = game.length_penalty if length_penalty is None else length_penalty
        self._invalid_penalty = game.invalid_penalty if invalid_penalty is None else invalid_penalty
        self._reveals = reveal_opponent
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.records: list[EpisodeRecord] = []
        """The finished episodes."""
        self.messages: tuple[Message, ...] = ()
        """The chat that the next answer replies to; the observation is its text."""
        self.fresh_chat = True
        """Whether `messages` starts a chat, so that it does not extend the last call's."""
        self.phase = "play"
        self.episode = 0
        self.hand = 0
        """Index of the running hand in its episode; 0 outside of play."""
        self.turn: Turn | None = None
        """The learner's turn that the prompt is about; None outside of play."""
        self.shown = ""
        """The raw text of that turn, the results of hands that ended with the last answer first."""
        self.over = True
        self.walk: MetaEpisode | TableWalk | None = None
        """The rollout loop's way to drive this environment (`wrappers.walk`), once it has one."""
        self._paid = 0.0

    # -- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts a meta-episode, a function of `seed` and `options` alone.

        `options`: `opponent` (registered name), `seat` (seat0) and `task` (its id). Without a seed, one is drawn from
        `np_random`.
        """
        env = self.game_env
        gym.Env.reset(env, seed=seed)
        self.begin(int(env.np_random.integers(2**62)) if seed is None else seed, options)
        return self._observation(), self._info(Outcome(None))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        outcome = self.answer(action)
        self.game_env.refresh()
        reward = self.records[-1].reward if outcome.episode_end else 0.0
        return self._observation(), reward, self.over, False, self._info(outcome)

    def render(self) -> Any:
        """Mode `ansi`: the prompt; else the board of the running episode, or of the one that is reflected on."""
        return self._observation() if self.game_env.render_mode == "ansi" else self.game_env.render()

    # -- what the rollout loop calls ------------------------------------------------------------------------

    def begin(self, seed: int, options: dict[str, Any] | None = None) -> None:
        """What `reset` does, without making the observation and the info; `np_random` is left alone."""
        self._streams, self._seat0, self._seated = self.draw(seed, options)
        for policy in self._seated.remembering:
            policy.begin_meta_episode()
        self.memory.begin()
        self.records = []
        self._memory_view: MemoryView | None = None
        self.over = False
        self._chat: list[Message] = []
        self._before_episode(0)
        self.game_env.refresh()

    def draw(self, seed: int, options: dict[str, Any] | None) -> tuple[KeyedStreams, int, Seated]:
        """What `begin` draws: the random streams, the seat of the first hand and who is seated."""
        env, streams = self.game_env, KeyedStreams(seed)
        name, seat = env.read_options(options)
        draws = Uniforms(streams.uniforms(POOL, 0, 0))
        drawn_seat = env.draw_seat(draws)
        seated = env.opponents.draw(draws) if name is None else env.opponents.named(name)
        return streams, drawn_seat if seat is None else seat, seated

    def prepare(self, seeds: Sequence[int]) -> None:
        """Makes the random streams of these seeds together, which is cheaper; it changes nothing else."""
        hands = range(self.game_env.hands_per_episode)
        keys = [(role, k, j) for role in self.game_env.roles() for k in range(self.num_episodes) for j in hands]
        prepare(seeds, [(POOL, 0, 0), *keys])

    def answer(self, reply: str) -> Outcome:
        """What `step` does, without making the observation and the info."""
        if self.over:
            raise gym.error.ResetNeeded("The meta-episode is over (or was never started): call reset() before step().")
        if not isinstance(reply, str):
            raise TypeError(f"step() takes a reply as str, not {type(reply).__name__}.")
        if self.converses:
            self._chat.append(message("assistant", str(reply)))
        return self._take_action(reply) if self.phase == "play" else self._take_reflection(reply)

    def _take_action(self, reply: str) -> Outcome:
        env, tag, action = self.game_env, self.style.action_tag, None
        turn, done = self.turn, self.hand
        assert turn is not None
        reason = _unusable(reply, tag)
        if reason == OVERFLOW:
            env.time_out()
        else:
            if reason is None:
                action = parse_tag(reply, tag)
            if action is not None:
                action = env.game.canonical(action)
            failed = env.play(action or "")
            reason = reason or failed
        ended = len(env.hands) > done
        last = TurnRecord(self.shown, action, turn, reason is None, done, env.hand_result if ended else "")
        self._turns.append(last)
        share = 0.0
        if ended:
            before, self._paid = self._paid, float(self.episode_reward(env.hands, env.hands_per_episode))
            share = self._paid - before
        over = env.over
        if over:
            self._after_episode(self._finish_episode())
        else:
            self._ask_play(last)
        return Outcome(reason, self._penalty(reply, reason), share, ended, over)

    def _take_reflection(self, reply: str) -> Outcome:
        reason = _unusable(reply, self.style.remark_tag)
        remark = None if reason else parse_tag(reply, self.style.remark_tag)
        if remark is not None:
            self.memory.on_reflection(remark[:REMARK_LIMIT], self._view())
        elif reason is None:
            reason = INVALID
        self._resume()
        return Outcome(reason, self._penalty(reply, reason))

    def _penalty(self, reply: str, reason: str | None) -> float:
        """Invalid-answer plus length penalty (method.md section 2); an overflow had no reply to punish."""
        penalty = self._invalid_penalty if reason in (INVALID, LENGTH) else 0.0
        if self._length_penalty and isinstance(reply, Reply) and reply.limit > 0:
            half = reply.limit / 2
            penalty += self._length_penalty * min(max((reply.tokens - half) / half, 0.0), 1.0)
        return penalty

    # -- the course of a meta-episode -----------------------------------------------------------------------

    def _finish_episode(self) -> EpisodeRecord:
        env = self.game_env
        record = EpisodeRecord(
            index=self.episode, first_observation=self._first, turns=tuple(self._turns), outcome=env.observation(),
            reward=self._paid, value=float(sum([hand.value for hand in env.hands])), success=env.succeeded(),
            timeout=env.timed_out, unit=env.game.unit, hands=tuple(env.hands), metrics=env.game.metrics(),
            alone=env.game.num_players == 1,
        )  # fmt: skip
        self.records.append(record)
        return record

    def _after_episode(self, record: EpisodeRecord) -> None:
        if record.index + 1 >= self.num_episodes or (self.protocol.early_stop and record.success):
            self.over, self.turn, self.hand = True, None, 0
            return
        request = self.memory.after_episode(self._view())
        if request is None:
            self._before_episode(record.index + 1)
        else:
            self._asked_before = False
            self._ask_reflect(request)

    def _before_episode(self, episode: int) -> None:
        self.episode = episode
        request = self.memory.before_episode(episode, self._view())
        if request is None:
            self._start_episode()
        else:
            self._asked_before = True
            self._ask_reflect(request)

    def _resume(self) -> None:
        """Goes on after a reflection."""
        if self._asked_before:
            self._start_episode()
        else:
            self._before_episode(self.episode + 1)

    def _start_episode(self) -> None:
        env = self.game_env
        env.begin(self._seated, self._seat0, self._streams, self.episode, 0 if self.replays else self.episode)
        self.phase = "play"
        self._turns: list[TurnRecord] = []
        self._dropped = 0
        self._paid = 0.0
        self._first = env.observation()
        if not self.memory.carries_transcript:
            self._chat = []
        self._ask_play(last=None)

    # -- prompts --------------------------------------------------------------------------------------------

    def _view(self) -> MemoryView:
        continuing, game = bool(self._chat), self.game_env.game
        if self._memory_view is None or self._memory_view.continuing != continuing:
            self._memory_view = MemoryView(
                game.rules, self.num_episodes, self.records, self.style, continuing, game.reflect_window,
                alone=game.num_players == 1,
            )  # fmt: skip
        return self._memory_view

    def _ask_reflect(self, request: str) -> None:
        self.phase, self.turn, self.hand = "reflect", None, 0
        self._put(request)

    def _ask_play(self, last: TurnRecord | None) -> None:
        env = self.game_env
        self.turn = turn = env.turn()
        self.hand = len(env.hands)
        self.shown = env.carried + turn.observation
        if self._chat:
            previous = self._unseen_end() if last is None else None
            view = ContinueView(self.episode, self.num_episodes, turn, self.shown, last, previous)
            self._put(self.style.continue_play(view))
        else:
            self._put(self.style.play(self._play_view(turn, last)))

    def _play_view(self, turn: Turn, last: TurnRecord | None) -> PlayView:
        env, game = self.game_env, self.game_env.game
        window = max(game.history_window - self._dropped, 0)
        turns = self._turns[-window:] if window else []
        return PlayView(  # in the order of its fields: keywords would double the time
            game.rules, self.episode, self.num_episodes, self._first, turn, self.shown, turns, game.full_turns,
            len(self._turns) - len(turns), self.memory.render(self._view()), last, self.hand, env.hands_per_episode,
            env.max_turns, self.protocol.early_stop, game.num_players == 1,
        )  # fmt: skip

    def _unseen_end(self) -> EpisodeRecord | None:
        """The previous episode, where the next message is the first of the chat that can tell how it ended."""
        return self.records[-1] if self.records and self._chat_told != len(self.records) else None

    def _put(self, text: str) -> None:
        self.fresh_chat = not (self.converses and self._chat)
        self._chat_told = len(self.records)
        if self.converses:
            self._chat.append(message("user", text))
            self.messages = tuple(self._chat)
        else:
            self.messages = (Message("user", text),)

    def shorten(self) -> bool:
        """Makes the prompt shorter by its oldest item (memory first, then turns); False when nothing is left."""
        if self.converses:
            if len(self._chat) < 3:
                return False
            del self._chat[:2]
            self.messages, self.fresh_chat = tuple(self._chat), True
            return True
        if self.phase != "play":
            return False
        shown = min(len(self._turns), self.game_env.game.history_window - self._dropped)
        if not self.memory.shorten():
            if shown <= 0:
                return False
            self._dropped = self.game_env.game.history_window - shown + 1
        self._ask_play(self._turns[-1] if self._turns else None)
        return True

    def _observation(self) -> str:
        if self.over:
            return self.records[-1].outcome
        return self.messages[0].content if len(self.messages) == 1 else "\n\n".join(m.content for m in self.messages)

    def anchor(self) -> str:
        """The raw observation that the next answer is about; `reflection` outside of play."""
        return "reflection" if self.turn is None else self.turn.observation

    def results(self) -> tuple[EpisodeResult, ...]:
        """How the finished episodes ended."""
        return tuple([result_of(record) for record in self.records])

    @property
    def asked(self) -> Asked:
        """What the next answer is about."""
        return Asked(self.phase, self.episode, self.hand, self.anchor(), self.legal_actions())

    def legal_actions(self) -> tuple[str, ...]:
        """The legal actions now, those included that no prompt shows; none outside of play."""
        return () if self.turn is None else self.game_env.game.legal_actions()

    def _info(self, outcome: Outcome) -> dict[str, Any]:
        env = self.game_env
        info: dict[str, Any] = {
            "episode": self.episode, "phase": self.phase, "seat": env.seat if self.phase == "play" else self._seat0,
            "hand": self.hand, "legal_actions": self.legal_actions(), "anchor": self.anchor(),
            "invalid_reason": outcome.reason, "penalty": outcome.penalty, "hand_reward": outcome.hand_reward,
            "hand_end": outcome.hand_end, "episode_end": outcome.episode_end, "episode_return": None, "success": None,
        }  # fmt: skip
        if outcome.episode_end:
            record = self.records[-1]
            info |= {"episode_return": record.reward, "episode_value": record.value}
            info |= {"success": record.success, "timeout": record.timeout}
        if self._reveals or self.over:
            info["opponent"] = self._seated.name
        return env.tell(info)

    @property
    def opponent_name(self) -> str:
        """The opponent of this meta-episode, for records; no prompt ever shows it."""
        return self._seated.name

    @property
    def seat0(self) -> int:
        """The learner's seat in the first hand."""
        return self._seat0


def _unusable(reply: str, tag: str | None) -> str | None:
    """Why a reply cannot hold an answer. A bare one-word reply ends at its limit by design."""
    if not isinstance(reply, Reply):
        return None
    if reply.overflow:
        return OVERFLOW
    return LENGTH if reply.truncated and tag is not None else None
