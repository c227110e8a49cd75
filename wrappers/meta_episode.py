"""`MetaEpisode`: several episodes against one unknown opponent or of one task, with reflections in between."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from mage_envs.checks import check_choice, check_positive
from mage_envs.core import BY_TIMEOUT, HandResult, Turn, is_success
from mage_envs.randomness import SEED_BITS, seed_of
from mage_envs.settings import GameSettings
from mage_envs.spaces import FreeText
from mage_envs.text.parser import INVALID, OVERFLOW, REMARK_LIMIT, Reply, parse_tag
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, PromptStyle, TurnRecord
from mage_envs.text.styles import as_style
from wrappers.answers import Outcome, penalty_of, unusable
from wrappers.chat import Chat
from wrappers.described import Described, describe, hand_of
from wrappers.memory import MemoryStrategy, MemoryView, as_memory
from wrappers.protocol import Protocol, as_protocol

CONTEXTS = ("rebuilt", "conversation")
"""`rebuilt`: every call is one fresh user message; `conversation`: turns are appended to one chat."""


class MetaEpisode(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """K episodes of an environment with text observations and actions as one Gymnasium episode; one `step` is one
    model answer, to a play or to a reflect prompt.

    Observation: the text that is new: the whole prompt where it is rebuilt, the newest message in a conversation.
    Action: the model's whole reply. Reward: R_k at the last play step of episode k, else 0; penalties stay in `info`.
    `terminated` after the last episode, however it ended; never truncated here. `info`: docs/environments.md.

    The environment is used by `reset`, `step` and `info` alone. One that declares the reset option `episode` (all ids
    of this suite) gets the meta-episode's seed and the episode's index; any other a seed made of both, or, where deals
    are replayed, the meta-episode's seed each time. For one that does not describe itself, `rules` says what is played,
    `settings` how it is prompted and paid (default: the sum of its rewards), and `max_turns` limits its answers.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        *,
        num_episodes: int = 3,
        protocol: str | Protocol = "adaptive",
        memory: str | MemoryStrategy = "reflection",
        context: str = "rebuilt",
        style: str | PromptStyle = "prose",
        deal: str | None = None,
        reward: str | None = None,
        rules: str | None = None,
        settings: GameSettings | None = None,
        max_turns: int | None = None,
        reveal_opponent: bool = False,
    ) -> None:
        """`deal` and `reward` override the protocol's; `reward` is a name in the settings' `rewards`."""
        RecordConstructorArgs.__init__(
            self,
            num_episodes=num_episodes,
            protocol=protocol,
            memory=memory,
            context=context,
            style=style,
            deal=deal,
            reward=reward,
            rules=rules,
            settings=settings,
            max_turns=max_turns,
            reveal_opponent=reveal_opponent,
        )
        super().__init__(env)
        check_positive("num_episodes", num_episodes)
        check_choice("context", context, CONTEXTS)
        check_choice("deal", deal, (None, "fresh", "replay"))
        self.num_episodes = num_episodes
        self.protocol = as_protocol(protocol)
        replays = (deal or self.protocol.deal) == "replay"
        self.described: Described = describe(env, rules, settings, max_turns, replays)
        """What is known of the environment before it is played."""
        self._alone = self.described.facts.players == 1
        self._replays = replays or self._alone
        self.memory = as_memory(memory)
        self.style: PromptStyle = as_style(style)
        self._chat = Chat(context == "conversation")
        rewards = self.described.settings.rewards
        name = reward or self.protocol.reward
        if name not in rewards:
            raise ValueError(
                f"reward={name!r} is unknown in {self.described.facts.name}; choose one of: {', '.join(rewards)}."
            )
        self.episode_reward = rewards[name]
        self._reveals = reveal_opponent
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.records: list[EpisodeRecord] = []
        """The finished episodes."""
        self._over = True
        self._phase, self._episode = "play", 0
        self._info: dict[str, Any] = {}
        self._turns: list[TurnRecord] = []
        self._hands: list[HandResult] = []
        self._results: list[HandResult] = []
        """Hands that the last answer ended."""
        self._dropped = self._answers = 0
        self._paid = self._value = 0.0

    # -- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts a meta-episode, a function of `seed` and `options` alone; `options` are the environment's.

        Without a seed, one is drawn from `np_random`.
        """
        self._seed = int(self.np_random.random() * 2**SEED_BITS) if seed is None else seed
        self._options = dict(options or {})
        self.memory.begin()
        self.records = []
        self._over = False
        self._chat.clear()
        self._chat_told = 0
        self._memory_view: MemoryView | None = None
        self._start_episode(0)
        return self._chat.text, self._told(Outcome())

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the model's whole reply.

        A `Reply` that overflowed (the prompt was longer than the model's limit) is answered by a shorter prompt, with
        `info["shortened"]`, as long as there is anything to leave out; after that it ends the episode as a timeout.
        """
        if self._over:
            raise gym.error.ResetNeeded("The meta-episode is over (or was never started): call reset() before step().")
        if not isinstance(action, str):
            raise TypeError(f"step() takes a reply as str, not {type(action).__name__}.")
        if isinstance(action, Reply) and action.overflow and self._shorten():
            return self._chat.text, 0.0, False, False, self._told(Outcome()) | {"shortened": True}
        self._chat.take(action)
        outcome = self._take_action(action) if self._phase == "play" else self._take_reflection(action)
        reward = self.records[-1].reward if outcome.episode_end else 0.0
        return self._chat.text, reward, self._over, False, self._told(outcome)

    def render(self) -> Any:
        """Mode `ansi`: the prompt; else the environment's picture."""
        return self._chat.text if self.render_mode == "ansi" else self.env.render()

    # -- answers --------------------------------------------------------------------------------------------

    def _take_action(self, reply: str) -> Outcome:
        reason = unusable(reply, self.style.action_tag)
        text = parse_tag(reply, self.style.action_tag) if reason is None else None
        turn, hand, shown = self._turn, self._hand, self._shown
        observation, reward, terminated, truncated, info = self.env.step(reply if reason == OVERFLOW else text or "")
        self._value += float(reward)
        self._answers += 1
        reason = reason or info.get("invalid_reason") or (INVALID if text is None else None)
        over = bool(terminated or truncated)
        results = [HandResult(**result) for result in info.get("hand_results", ())]
        if not self.described.ends_by_itself:
            if not over and (reason == OVERFLOW or self._answers >= self.described.max_turns):
                over = truncated = True
            if over:
                results = [hand_of(observation, info, value=self._value, timeout=bool(truncated))]
        action = text if reason is not None or text is None else info.get("action") or text
        record = TurnRecord(
            observation=shown,
            action=action,
            turn=turn,
            legal=reason is None,
            hand=hand,
            ended=results[0] if results else None,
        )
        self._turns.append(record)
        share = 0.0
        self._results = results
        if results:
            self._hands += results
            before, self._paid = self._paid, float(self.episode_reward(self._hands, self.described.hands))
            share = self._paid - before
        self._look(observation, info)
        if over:
            self._finish_episode(observation, info)
        else:
            self._ask_play(record)
        return Outcome(
            invalid_reason=reason,
            action=None if reason else action,
            penalty=penalty_of(reply, reason, self.described.settings),
            hand_reward=share,
            hand_end=bool(results),
            episode_end=over,
        )

    def _take_reflection(self, reply: str) -> Outcome:
        reason = unusable(reply, self.style.remark_tag)
        remark = None if reason else parse_tag(reply, self.style.remark_tag)
        if remark is not None:
            self.memory.on_reflection(remark[:REMARK_LIMIT], self._view())
        elif reason is None:
            reason = INVALID
        penalty = penalty_of(reply, reason, self.described.settings)
        if self._asked_before:
            self._open_play()
        else:
            self._start_episode(self._episode + 1)
        return Outcome(invalid_reason=reason, penalty=penalty)

    # -- the course of a meta-episode -----------------------------------------------------------------------

    def _start_episode(self, episode: int) -> None:
        self._episode = episode
        if "episode" in self.described.reset_options:
            chosen = {"episode": episode, "deal": 0 if self._replays else episode}
            observation, info = self.env.reset(seed=self._seed, options={**self._options, **chosen})
        else:
            seed = self._seed if self._replays else seed_of(self._seed, episode)
            observation, info = self.env.reset(seed=seed, options=self._options or None)
        if not isinstance(observation, str):
            raise TypeError(f"MetaEpisode needs observations of text; {self.env} gave a {type(observation).__name__}.")
        self._look(observation, info)
        self._first = observation
        request = self.memory.before_episode(episode, self._view())
        self._asked_before = True
        if request is None:
            self._open_play()
        else:
            self._ask_reflect(request)

    def _open_play(self) -> None:
        """The first play prompt of the episode that was started."""
        self._turns, self._hands = [], []
        self._dropped = self._answers = 0
        self._paid = self._value = 0.0
        if not self.memory.carries_transcript:
            self._chat.clear()
        self._ask_play(None)

    def _finish_episode(self, observation: str, info: Mapping[str, Any]) -> None:
        """Files the episode that is over and goes on: to the next one, to a reflection, or to the end."""
        told = info.get("success")
        record = EpisodeRecord(
            index=self._episode,
            first_observation=self._first,
            turns=tuple(self._turns),
            outcome=observation,
            reward=self._paid,
            value=float(sum([hand.value for hand in self._hands])),
            success=is_success(self._hands) if told is None else bool(told),
            timeout=any(hand.ended_by == BY_TIMEOUT for hand in self._hands),
            unit=self.described.facts.unit,
            hands=tuple(self._hands),
            metrics=info.get("metrics", {}),
            alone=self._alone,
        )
        self.records.append(record)
        if record.index + 1 >= self.num_episodes or (self.protocol.early_stop and record.success):
            self._over = True
            self._chat.clear()
            self._chat.ask(observation)
            return
        request = self.memory.after_episode(self._view())
        if request is None:
            self._start_episode(record.index + 1)
        else:
            self._asked_before = False
            self._ask_reflect(request)

    def _look(self, observation: str, info: dict[str, Any]) -> None:
        """Takes in what the environment shows now."""
        self._info = info
        self._shown = observation
        self._hand = info.get("hand", 0)
        self._turn = Turn(
            player=info.get("seat", 0),
            observation=info.get("anchor", observation),
            legal_actions=tuple(info.get("legal_actions", ())) if self.described.facts.shows_legal_actions else (),
            information_state=info.get("information_state", observation),
            episode=self._episode,
            history=tuple(info.get("history", ())),
            task=info.get("task"),
        )

    # -- prompts --------------------------------------------------------------------------------------------

    def _view(self) -> MemoryView:
        continuing, facts = bool(self._chat), self.described.facts
        if self._memory_view is None or self._memory_view.continuing != continuing:
            self._memory_view = MemoryView(
                rules=facts.rules,
                num_episodes=self.num_episodes,
                records=self.records,
                style=self.style,
                continuing=continuing,
                window=self.described.settings.reflect_window,
                alone=self._alone,
            )
        return self._memory_view

    def _ask_reflect(self, request: str) -> None:
        self._phase = "reflect"
        self._put(request)

    def _ask_play(self, last: TurnRecord | None) -> None:
        self._phase = "play"
        if not self._chat:
            self._put(self.style.play(self._play_view(last)))
            return
        view = ContinueView(
            episode=self._episode,
            num_episodes=self.num_episodes,
            turn=self._turn,
            observation=self._shown,
            last=last,
            previous=self._unseen_end() if last is None else None,
        )
        self._put(self.style.continue_play(view))

    def _play_view(self, last: TurnRecord | None) -> PlayView:
        facts, settings = self.described.facts, self.described.settings
        window = max(settings.history_window - self._dropped, 0)
        turns = self._turns[-window:] if window else []
        return PlayView(
            rules=facts.rules,
            episode=self._episode,
            num_episodes=self.num_episodes,
            first_observation=self._first,
            turn=self._turn,
            observation=self._shown,
            turns=turns,
            full_turns=settings.full_turns,
            omitted=len(self._turns) - len(turns),
            memory=self.memory.render(self._view()),
            last=last,
            hand=self._hand,
            hands=self.described.hands,
            max_turns=self.described.max_turns,
            may_stop_early=self.protocol.early_stop,
            alone=self._alone,
        )

    def _unseen_end(self) -> EpisodeRecord | None:
        """The previous episode, where the next message is the first of the chat that can tell how it ended."""
        return self.records[-1] if self.records and self._chat_told != len(self.records) else None

    def _put(self, text: str) -> None:
        self._chat_told = len(self.records)
        self._chat.ask(text)

    def _shorten(self) -> bool:
        """Makes the prompt shorter by its oldest item (memory first, then turns); False when nothing is left."""
        if self._chat.converses:
            return self._chat.shorten()
        if self._phase != "play":
            return False
        shown = min(len(self._turns), self.described.settings.history_window - self._dropped)
        if not self.memory.shorten():
            if shown <= 0:
                return False
            self._dropped = self.described.settings.history_window - shown + 1
        self._ask_play(self._turns[-1] if self._turns else None)
        return True

    # -- what is told ---------------------------------------------------------------------------------------

    def _told(self, outcome: Outcome) -> dict[str, Any]:
        """The `info` of a step: what the next answer is about, and what became of the last one."""
        playing = self._phase == "play" and not self._over
        info: dict[str, Any] = {
            "messages": self._chat.messages(),
            "fresh_chat": self._chat.fresh,
            "phase": self._phase,
            "episode_index": self._episode,
            "num_episodes": self.num_episodes,
            "hand": self._hand if playing else 0,
            "seat": self._turn.player,
            "legal_actions": self._info.get("legal_actions", ()) if playing else (),
            "anchor": self._turn.observation if playing else "reflection",
            "answer_tag": self.style.action_tag if self._phase == "play" else self.style.remark_tag,
            "invalid_reason": outcome.invalid_reason,
            "action": outcome.action,
            "penalty": outcome.penalty,
            "hand_reward": outcome.hand_reward,
            "hand_end": outcome.hand_end,
            "episode_end": outcome.episode_end,
            "episode_return": None,
            "success": None,
        }
        if playing:
            info["information_state"], info["history"] = self._turn.information_state, self._turn.history
        info |= {key: copy(self._info[key]) for key in ("metrics", "task", "category") if key in self._info}
        if outcome.hand_end:
            info["hand_results"] = [result.told() for result in self._results]
        if outcome.episode_end:
            info |= self.records[-1].told()
        if self._reveals or self._over:
            info["opponent"] = self._info.get("opponent", "")
        return info
