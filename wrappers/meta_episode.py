"""`MetaEpisode`: several episodes against one unknown opponent or of one task, with reflections in between."""

from __future__ import annotations

from copy import copy
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from mage_envs.checks import check_choice, check_positive
from mage_envs.core import Turn
from mage_envs.randomness import SEED_BITS, seed_of
from mage_envs.returned import checked_reset, checked_step
from mage_envs.settings import EpisodeReward, GameSettings, as_reward
from mage_envs.spaces import FreeText
from mage_envs.text.parser import INVALID, OVERFLOW, Reply, encodable, parse_reply
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, PromptStyle, TurnRecord
from mage_envs.text.styles import as_style
from wrappers.answers import outcome, penalty_of, unusable
from wrappers.chat import Chat
from wrappers.controls import split_control
from wrappers.described import Described, describe, hand_of
from wrappers.memories import MemorySpec, as_memory
from wrappers.memory import MemoryView
from wrappers.memory_calls import AFTER_EPISODE, AFTER_TURN, BEFORE_EPISODE, BEFORE_TURN, MemoryCalls
from wrappers.protocol import Protocol, as_protocol
from wrappers.running import RunningEpisode

MAX_EPISODES = 1000
"""Of a meta-episode."""
CONTEXTS = ("rebuilt", "conversation")
"""`rebuilt`: every call is one fresh user message; `conversation`: turns are appended to one chat."""


class MetaEpisode(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """K episodes of an environment with text observations and actions as one Gymnasium episode; one `step` is one
    model answer, to a play prompt or to a request of the memory.

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
        memory: MemorySpec = "reflection",
        context: str = "rebuilt",
        style: str | PromptStyle = "prose",
        deal: str | None = None,
        reward: str | EpisodeReward | None = None,
        rules: str | None = None,
        settings: GameSettings | None = None,
        max_turns: int | None = None,
        max_calls: int = 8,
        reveal_opponent: bool = False,
        show_score: bool | None = None,
    ) -> None:
        """`deal` and `reward` override the protocol's; `reward` is a name in the settings' `rewards`. `max_calls`: most
        requests of the memory between two play prompts. `show_score`: the sentence on how an episode ended states the
        return (default: True in games of several players). Every memory shows the same sentence."""
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
            max_calls=max_calls,
            reveal_opponent=reveal_opponent,
            show_score=show_score,
        )
        super().__init__(env)
        check_positive("num_episodes", num_episodes, MAX_EPISODES)
        check_positive("max_calls", max_calls)
        check_choice("context", context, CONTEXTS)
        check_choice("deal", deal, (None, "fresh", "replay"))
        self.num_episodes = num_episodes
        self.protocol = as_protocol(protocol)
        replays = (deal or self.protocol.deal) == "replay"
        self.described: Described = describe(env, rules, settings, max_turns, replays)
        """What is known of the environment before it is played."""
        self._alone = self.described.facts.players == 1
        if self._alone and deal == "fresh":
            raise ValueError("deal='fresh' is for games of several players; a game of one player repeats its task.")
        self._replays = replays or self._alone
        self._shows_score = not self._alone if show_score is None else show_score
        control, strategy = split_control(memory)
        self.memory, self._chat = as_memory(strategy), Chat(context == "conversation")
        self._calls = MemoryCalls(self.memory, max_calls, self._chat.converses, control)
        self.style: PromptStyle = as_style(style, self.described.facts)
        self.episode_reward = as_reward(
            reward or self.protocol.reward, self.described.settings.rewards, self.described.facts.name
        )
        self._reveals = reveal_opponent
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.records: list[EpisodeRecord] = []
        """The finished episodes."""
        self._stage = BEFORE_EPISODE
        """The hook that was called last."""
        self._ended = False  # whether the episode under way is over
        self._episode = RunningEpisode(0, "")
        self._info: dict[str, Any] = {}

    # -- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts a meta-episode, a function of `seed` and `options` alone; `options` are the environment's.

        Without a seed, one is drawn from `np_random`.
        """
        self._seed = int(self.np_random.random() * 2**SEED_BITS) if seed is None else seed
        self._options = dict(options or {})
        self._calls.begin(self._seed, self._options)
        self.records = []
        self._chat.clear()
        self._chat_told = 0
        self._start_episode(0)
        self._go_on(BEFORE_EPISODE)
        return self._chat.text, self._told(outcome())

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the model's whole reply.

        A `Reply` that overflowed (the prompt was longer than the model's limit) is answered by a shorter prompt, with
        `info["shortened"]`, as long as there is anything to leave out; after that it ends the episode as a timeout.
        """
        if not self._calls.running:
            raise gym.error.ResetNeeded("The meta-episode is over (or was never started): call reset() before step().")
        if not isinstance(action, str):
            raise TypeError(f"step() takes a reply as str, not {type(action).__name__}.")
        if isinstance(action, Reply) and action.overflow and self._shorten():
            return self._chat.text, 0.0, False, False, self._told(outcome()) | {"shortened": True}
        self._chat.take(action)
        told = self._take_action(action) if self._calls.pending is None else self._take_answer(action)
        reward = told["episode_return"] if told["episode_end"] else 0.0
        return self._chat.text, reward, not self._calls.running, False, self._told(told) | self._calls.told()

    def render(self) -> Any:
        """Mode `ansi`: the prompt; else the environment's picture."""
        if not self._chat.text and not self.records:
            raise gym.error.ResetNeeded("There is nothing to show before the first reset().")
        return self._chat.text if self.render_mode == "ansi" else self.env.render()

    # -- answers --------------------------------------------------------------------------------------------

    def _take_action(self, reply: str) -> dict[str, Any]:
        reason = unusable(reply, self.style.action_tag)
        parsed = parse_reply(reply, self.style.action_tag)
        if reason is None and parsed.answer is None and self._calls.may_think(parsed.thought, self._episode.thinking):
            self._episode.thinking.append(parsed.thought)
            self._ask_play()
            return outcome(penalty=penalty_of(reply, None, self.described.settings)) | {"thought": True}
        text = parsed.answer if reason is None else None
        turn, hand, shown, episode = self._turn, self._hand, self._shown, self._episode
        observation, reward, terminated, truncated, info = checked_step(
            self.env.step(reply if reason == OVERFLOW else encodable(text or ""))
        )
        episode.answers += 1
        reason = reason or info.get("invalid_reason") or (INVALID if text is None else None)
        over = terminated or truncated
        results = episode.earn(reward, info.get("hand_results", ()))
        if not self.described.ends_by_itself:
            if not over and (reason == OVERFLOW or episode.answers >= self.described.max_turns):
                over = truncated = True
            if over:
                results = [hand_of(observation, info, value=episode.value, timeout=truncated)]
        action = text if reason is not None or text is None else info.get("action") or text
        record = TurnRecord(
            observation=shown,
            action=action,
            turn=turn,
            legal=reason is None,
            hand=hand,
            ended=results[0] if results else None,
            reply=parsed.reply,
            thought="\n".join([*episode.thinking, parsed.thought]) if episode.thinking else parsed.thought,
        )
        share = episode.add(record, results, self.episode_reward, self.described.hands)
        self._look(observation, info)
        self._ended = over
        if over:
            unit, shows = self.described.facts.unit, self._shows_score
            self.records.append(episode.record(observation, info, unit=unit, shows_score=shows, alone=self._alone))
        self._go_on(AFTER_TURN)
        told = outcome(
            invalid_reason=reason,
            action=None if reason else action,
            penalty=penalty_of(reply, reason, self.described.settings),
            hand_reward=share,
        )
        if results:
            told |= {"hand_end": True, "hand_results": [result.told() for result in results]}
        if over:
            metrics = dict(info.get("metrics", {}))
            told |= {"episode_end": True, **self.records[-1].told(), "episode_metrics": metrics}
            told["episode_values"] = [record.value for record in self.records]
        return told

    def _take_answer(self, reply: str) -> dict[str, Any]:
        answer = self._calls.take(reply, self.memory_view())
        if self._calls.pending is None:
            self._go_on(self._following())
        else:
            self._put(self._calls.pending.text)
        return outcome(invalid_reason=answer.reason, penalty=penalty_of(reply, answer.reason, self.described.settings))

    # -- the course of a meta-episode -----------------------------------------------------------------------

    def _start_episode(self, episode: int) -> None:
        if "episode" in self.described.reset_options:
            chosen = {"episode": episode, "deal": 0 if self._replays else episode}
            result = self.env.reset(seed=self._seed, options={**self._options, **chosen})
        else:
            seed = self._seed if self._replays else seed_of(self._seed, episode)
            result = self.env.reset(seed=seed, options=self._options or None)
        observation, info = checked_reset(result)
        self._episode = RunningEpisode(episode, observation)
        self._ended = False
        self._look(observation, info)

    def _go_on(self, stage: str) -> None:
        """Calls the hooks in their order from that one on, until one asks the model or it is the learner's turn."""
        while stage:
            self._stage = stage
            request = self._calls.call(stage, self.memory_view, self._is_last())
            if request is not None:
                self._put(request.text)
                return
            stage = self._following()

    def _following(self) -> str:
        """Goes on from a hook that asks nothing more; returns the next hook, empty where something else comes."""
        if self._stage == AFTER_TURN:
            return AFTER_EPISODE if self._ended else BEFORE_TURN
        if self._stage == AFTER_EPISODE:
            if self._is_last():
                self._calls.end()
                self._chat.clear()
                self._chat.ask(self._shown)
                return ""
            self._start_episode(self._episode.index + 1)
            return BEFORE_EPISODE
        if self._stage == BEFORE_EPISODE:
            self._calls.settle(self._chat, self._episode.index)
            return BEFORE_TURN
        self._calls.play()
        self._ask_play()
        return ""

    def _is_last(self) -> bool:
        """Whether no episode follows the one that is over."""
        if not self._ended:
            return False
        return self._episode.index + 1 >= self.num_episodes or (self.protocol.early_stop and self.records[-1].success)

    def _look(self, observation: str, info: dict[str, Any]) -> None:
        """Takes in what the environment shows now."""
        self._info, self._shown, self._hand = info, observation, info.get("hand", 0)
        self._turn = Turn(
            player=info.get("seat", 0),
            observation=info.get("anchor", observation),
            legal_actions=tuple(info.get("legal_actions", ())) if self.described.facts.shows_legal_actions else (),
            information_state=info.get("information_state", observation),
            episode=self._episode.index,
            history=tuple(info.get("history", ())),
            task=info.get("task"),
        )

    # -- prompts --------------------------------------------------------------------------------------------

    def memory_view(self) -> MemoryView:
        """What the memory sees now."""
        episode = self._episode
        return MemoryView(
            rules=self.described.facts.rules,
            num_episodes=self.num_episodes,
            records=self.records,
            style=self.style,
            continuing=bool(self._chat),
            window=self.described.settings.reflect_window,
            alone=self._alone,
            episode=episode.index,
            first_observation=episode.first_observation,
            turn=None if self._ended or self._stage in (AFTER_EPISODE, BEFORE_EPISODE) else self._turn,
            turns=episode.turns,
            category=self._info.get("category"),
        )

    def _ask_play(self) -> None:
        episode = self._episode
        last = episode.turns[-1] if episode.turns else None
        if not self._chat:
            self._put(self.style.play(self._play_view(last)))
            return
        view = ContinueView(
            episode=episode.index,
            num_episodes=self.num_episodes,
            turn=self._turn,
            observation=self._shown,
            last=last,
            previous=self._unseen_end() if last is None else None,
            thinking=episode.thinking,
            instruction=self._calls.instruction,
        )
        self._put(self.style.continue_play(view))

    def _play_view(self, last: TurnRecord | None) -> PlayView:
        facts, settings, episode = self.described.facts, self.described.settings, self._episode
        turns = episode.shown(settings.history_window)
        return PlayView(
            rules=facts.rules,
            episode=episode.index,
            num_episodes=self.num_episodes,
            first_observation=episode.first_observation,
            turn=self._turn,
            observation=self._shown,
            turns=turns,
            full_turns=settings.full_turns,
            omitted=len(episode.turns) - len(turns),
            memory=self._calls.render(self.memory_view()),
            last=last,
            hand=self._hand,
            hands=self.described.hands,
            max_turns=self.described.max_turns,
            may_stop_early=self.protocol.early_stop,
            alone=self._alone,
            heading=self._calls.heading,
            thoughts=self._calls.thoughts(turns),
            thinking=episode.thinking,
            instruction=self._calls.instruction,
        )

    def _unseen_end(self) -> EpisodeRecord | None:
        """The previous episode, where the next message is the first of the chat that can tell how it ended."""
        untold = self.records and self._chat_told != len(self.records)
        return self._calls.control.previous(self.records) if untold else None

    def _put(self, text: str) -> None:
        self._chat_told = len(self.records)
        self._chat.ask(text)

    def _shorten(self) -> bool:
        """Makes the prompt shorter by its oldest item (memory first, then turns); False when nothing is left."""
        if self._chat.converses:
            return self._chat.shorten()
        if self._calls.pending is not None:
            return False
        if not self.memory.shorten() and not self._episode.drop_oldest(self.described.settings.history_window):
            return False
        self._ask_play()
        return True

    # -- what is told ---------------------------------------------------------------------------------------

    def _told(self, became: dict[str, Any]) -> dict[str, Any]:
        """The `info` of a step: what the next answer is about, and what `became` of the last one."""
        request, running, shown, turn = self._calls.pending, self._calls.running, self._info, self._turn
        playing = running and request is None
        info: dict[str, Any] = {
            "messages": self._chat.messages(),
            "fresh_chat": self._chat.fresh,
            "phase": "play" if request is None else "reflect",
            "kind": "play" if request is None else request.kind,
            "episode_index": self._episode.index + int(self._ended and running),
            "num_episodes": self.num_episodes,
            "hand": self._hand if playing else 0,
            "seat": turn.player,
            "legal_actions": shown.get("legal_actions", ()) if playing else (),
            "anchor": turn.observation if playing else "reflection",
            "answer_tag": self.style.action_tag if request is None else self._calls.tag(self.style.remark_tag),
            **became,
        }
        if playing:
            info["information_state"], info["history"] = turn.information_state, turn.history
        for key in ("metrics", "task", "category", *(() if running else ("opponent_calls",))):
            if key in shown:
                info[key] = copy(shown[key])
        if self._reveals or not running:
            info["opponent"] = shown.get("opponent", "")
        return info
