"""`MetaEpisode`: several episodes against one unknown opponent, or of one task, with reflections between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from mage_envs.core import Turn, hand_results
from mage_envs.info import pass_on, private_info
from mage_envs.loading.options import check_choice, check_positive
from mage_envs.random.streams import SEED_BITS
from mage_envs.settings import EpisodeReward, GameSettings, as_reward
from mage_envs.spaces import FreeText
from mage_envs.step_checks import check_reset, check_step
from mage_envs.text.parser import INVALID, OVERFLOW, Reply, encodable, parse_reply
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, PromptStyle, TurnRecord
from mage_envs.text.styles import DEFAULT_STYLE, as_style
from mage_envs.wrappers.belief_question import ElicitForm, question_of
from mage_envs.wrappers.controls import parse_control
from mage_envs.wrappers.env_metadata import EnvMetadata, hand_of, read_env_metadata
from mage_envs.wrappers.episode_buffer import EpisodeBuffer
from mage_envs.wrappers.memories import MemorySpec, as_memory
from mage_envs.wrappers.memory import MemoryView
from mage_envs.wrappers.model_calls import (
    AFTER_EPISODE,
    AFTER_TURN,
    BEFORE_EPISODE,
    BEFORE_PLAY,
    BEFORE_TURN,
    Chat,
    MemoryCalls,
    outcome,
    penalty_of,
    unusable,
)
from mage_envs.wrappers.protocol import Protocol, as_protocol, pop_rotation, series_protocol

MAX_EPISODES = 1000
"""Maximum number of episodes in a meta-episode."""
CONTEXTS = ("rebuilt", "conversation")
"""`rebuilt`: every model call has one fresh user message. `conversation`: turns are appended to one chat."""


class MetaEpisode(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Wrapper that plays K episodes of a text environment as one Gymnasium episode.

    One `step` is one answer of the model, to a play prompt or to a request of the memory.

    * Observation: the new text. This is the whole prompt if it is rebuilt, or the newest message of a conversation.
    * Action: the model's whole reply.
    * Reward: R_k at the last play step of episode k, otherwise 0. Penalties are only in `info`.
    * `terminated` is True after the last episode, for every kind of end. `truncated` is always False.
    * `info`: see docs/environments.md.

    The wrapper uses only `reset`, `step` and `info` of the environment. If the environment declares the reset option
    `episode` (as all ids of this suite do), it receives the meta-episode's seed and the episode's index. Otherwise it
    receives a seed made of both, or the meta-episode's seed in every episode if deals are replayed.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        *,
        num_episodes: int = 3,
        protocol: str | Protocol = "adaptive",
        memory: MemorySpec = "reflection",
        context: str = "rebuilt",
        style: str | PromptStyle = DEFAULT_STYLE,
        deal: str | None = None,
        reward: str | EpisodeReward | None = None,
        rules: str | None = None,
        settings: GameSettings | None = None,
        max_turns: int | None = None,
        max_calls: int = 8,
        reveal_opponent: bool = False,
        show_score: bool | None = None,
        elicit: Sequence[str] | None = None,
        elicit_form: ElicitForm = "probabilities",
    ) -> None:
        """Wrap an environment.

        Args:
            env: Environment with text observations and actions.
            num_episodes: Number of episodes K, at most 1,000.
            protocol: Name of a protocol, or a `Protocol`.
            memory: Memory between episodes: a name with options, a class or function, or a strategy.
            context: `rebuilt` or `conversation`.
            style: Name of a prompt style, or a `PromptStyle`.
            deal: `fresh` or `replay`. Default: that of the protocol.
            reward: Name in the settings' `rewards`. Default: that of the protocol.
            rules: Rules shown in prompts. Required if the environment has no `game_spec`.
            settings: Prompt and reward settings. Default: those of the environment, or the sum of its rewards.
            max_turns: Maximum number of answers per episode, only for an environment without `game_spec`.
            max_calls: Maximum number of the memory's requests between two play prompts.
            reveal_opponent: True if `info` names the opponent from the first step on, not only at the end.
            show_score: True if the sentence on an episode's end states the return. Every memory shows the same
                sentence. Default: True if the game has several players.
            elicit: Names of opponents. Between episodes, a call that no later prompt shows asks which of them is met.
            elicit_form: Answer to this question: `probabilities` of all opponents, or the `name` of one.
        """
        # Before any other local variable exists, so that these are the arguments.
        arguments = {name: value for name, value in locals().items() if name not in ("self", "env", "__class__")}
        RecordConstructorArgs.__init__(self, **arguments)
        super().__init__(env)
        check_positive("num_episodes", num_episodes, MAX_EPISODES)
        check_positive("max_calls", max_calls)
        check_choice("context", context, CONTEXTS)
        check_choice("deal", deal, (None, "fresh", "replay"))
        check_choice("elicit_form", elicit_form, ("probabilities", "name"))
        self.num_episodes = num_episodes
        self.protocol = as_protocol(protocol)
        replays = (deal or self.protocol.deal) == "replay"
        self.env_metadata: EnvMetadata = read_env_metadata(env, rules, settings, max_turns, replays)
        """Metadata of the environment, read before the first reset."""
        if self.env_metadata.spec.series:
            self.protocol, replays = series_protocol(self.protocol, deal), False
        single_player = self.env_metadata.spec.players == 1
        if single_player and deal == "fresh":
            raise ValueError("deal='fresh' needs several players; a game of one player repeats its task. Remove deal.")
        self._shows_score = not single_player if show_score is None else show_score
        control, strategy = parse_control(memory)
        self.style: PromptStyle = as_style(style, self.env_metadata.spec)
        self.memory, self._chat = as_memory(strategy), Chat(context == "conversation", self.style)
        question = None if elicit is None else question_of(elicit, self.style, env, elicit_form)
        self._calls = MemoryCalls(self.memory, max_calls, self._chat.converses, control, question=question)
        self.episode_reward = as_reward(
            reward or self.protocol.reward, self.env_metadata.settings.rewards, self.env_metadata.spec.name
        )
        self._frame = self.env_metadata.frame(num_episodes, self.protocol.early_stop, replays or single_player)
        self._reveals = reveal_opponent
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.records: list[EpisodeRecord] = []
        """Records of the finished episodes."""
        self._stage = BEFORE_EPISODE
        """Hook that was called last."""
        self._ended = False
        """True if the current episode has ended."""
        self._episode = EpisodeBuffer(0, "")
        self._info: dict[str, Any] = {}
        turns = num_episodes * self.env_metadata.hands * self.env_metadata.max_turns
        self.max_steps = turns + self._calls.max_requests(num_episodes, turns)
        """Maximum number of steps of a meta-episode, except those that only shorten a prompt."""

    # -- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start a meta-episode, which depends only on `seed`, `options` and the answers.

        The environment receives `options` without `rotation` (`Task.rotation`). The default seed is drawn.
        """
        self._seed = int(self.np_random.random() * 2**SEED_BITS) if seed is None else seed
        self._options = dict(options or {})
        self._rotation = pop_rotation(self._options, self.env_metadata.spec.series)
        self._calls.begin(self._seed, self._options)
        self.records = []
        self._chat.clear()
        self._chat.known_episodes = 0
        self._start_episode(0)
        # The options may replace the rule for the seat, which prompts state. The style keeps its text for a frame.
        seats_change = self._frame.seats_change
        if seats_change is not None and (changes := self.env.get_wrapper_attr("seats_change")) != seats_change:
            self._frame = self._frame._replace(seats_change=changes)
        # A task may have a limit of its own, below that of its game.
        if self.env_metadata.ends_by_itself and self.env_metadata.hands == 1:
            self._frame = self._frame._replace(max_turns=self._info.get("max_steps", self._frame.max_turns))
        self._run_hooks(BEFORE_EPISODE)
        return self._chat.text, self._make_info({**outcome(), "max_steps": self.max_steps})

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play the model's whole reply.

        A `Reply` overflowed if the prompt was longer than the model's limit. If the prompt still has an item to drop,
        the step returns a shorter prompt and `info["shortened"]`. Otherwise the episode ends as a timeout.
        """
        if not self._calls.running:
            raise gym.error.ResetNeeded("The meta-episode has ended or was never started. Call reset() before step().")
        if not isinstance(action, str):
            raise TypeError(f"step() expects a reply as str, got {type(action).__name__}.")
        # The chat, the memory and the environment may quote the reply in a prompt.
        action = encodable(action)
        # Before the chat records the reply: an overflow has no text, and the shorter prompt replaces the question.
        if isinstance(action, Reply) and action.overflow and self._shorten():
            return self._chat.text, 0.0, False, False, self._make_info(outcome()) | {"shortened": True}
        self._chat.add_reply(action)
        entries = self._on_action(action) if self._calls.pending is None else self._on_memory_answer(action)
        reward = entries["episode_return"] if entries["episode_end"] else 0.0
        entries.update(self._calls.to_info())
        return self._chat.text, reward, not self._calls.running, False, self._make_info(entries)

    def render(self) -> Any:
        """Return the prompt in mode `ansi`, otherwise the environment's picture."""
        if not self._chat.text and not self.records:
            raise gym.error.ResetNeeded("render() was called before the first reset(). Call reset() first.")
        return self._chat.text if self.render_mode == "ansi" else self.env.render()

    # -- answers --------------------------------------------------------------------------------------------

    def _on_action(self, reply: str) -> dict[str, Any]:
        reason = unusable(reply, self.style.action_tag)
        parsed = parse_reply(reply, self.style.action_tag)
        if reason is None and parsed.answer is None and self._calls.may_think(parsed.thought, self._episode.thinking):
            # A thought alone uses a model call, but no turn: the environment is not stepped.
            self._episode.thinking.append(parsed.thought)
            self._ask_play()
            return outcome(penalty=penalty_of(reply, None, self.env_metadata.settings)) | {"thought": True}
        text = self._chat.renaming.read(parsed.answer) if reason is None and parsed.answer is not None else None
        turn, hand, last_observation, episode = self._turn, self._hand, self._shown, self._episode
        # The environment receives an overflow unchanged, because it ends the episode as a timeout.
        observation, reward, terminated, truncated, info = check_step(
            self.env.step(reply if reason == OVERFLOW else text or ""), chat=False
        )
        episode.answers += 1
        reason = reason or info.get("invalid_reason") or (INVALID if text is None else None)
        over = terminated or truncated
        results = episode.earn(reward, hand_results(info))
        if not self.env_metadata.ends_by_itself:
            # A foreign environment knows neither overflows nor our limit of answers, so both end its episode here.
            if not over and (reason == OVERFLOW or episode.answers >= self.env_metadata.max_turns):
                over = truncated = True
            if over:
                results = [hand_of(observation, info, value=episode.value, timeout=truncated)]
        action = text if reason is not None or text is None else info.get("action") or text
        record = TurnRecord(
            observation=last_observation,
            action=action,
            turn=turn,
            legal=reason is None,
            hand=hand,
            ended=results[0] if results else None,
            reply=parsed.reply,
            thought="\n".join([*episode.thinking, parsed.thought]) if episode.thinking else parsed.thought,
            reason=reason,
        )
        share = episode.add(record, results, self.episode_reward, self.env_metadata.hands)
        # The hooks below see the new observation and, if the episode ended, its record.
        self._update_observation(observation, info)
        self._ended = over
        if over:
            unit, shows, single_player = self.env_metadata.spec.unit, self._shows_score, self._frame.single_player
            self.records.append(
                episode.record(observation, info, unit=unit, shows_score=shows, single_player=single_player)
            )
        self._run_hooks(AFTER_TURN)
        entries = outcome(
            invalid_reason=reason,
            action=None if reason else action,
            penalty=penalty_of(reply, reason, self.env_metadata.settings),
            hand_reward=share,
        )
        if results:
            entries |= {"hand_end": True, "hand_results": [result.to_info() for result in results]}
        if over:
            entries |= {"episode_end": True, **self.records[-1].to_info()}
            entries["episode_values"] = [record.value for record in self.records]
            entries["private"] = {"episode_metrics": dict(private_info(info).get("metrics", {}))}
        return entries

    def _on_memory_answer(self, reply: str) -> dict[str, Any]:
        answer = self._calls.on_answer(reply, self.memory_view())
        if self._calls.pending is None:
            self._run_hooks(self._next_hook())
        else:
            self._send_prompt(self._calls.pending.text)
        return outcome(
            invalid_reason=answer.reason, penalty=penalty_of(reply, answer.reason, self.env_metadata.settings)
        )

    # -- the course of a meta-episode -----------------------------------------------------------------------

    def _start_episode(self, episode: int) -> None:
        deal = 0 if self._frame.replays else (episode + self._rotation) % self.num_episodes
        result = self.env_metadata.reset(self.env, self._seed, self._options, episode, deal)
        observation, info = check_reset(result, chat=False)
        self._calls.control.read_env(self.env)
        self._episode = EpisodeBuffer(episode, observation)
        self._ended = False
        self._update_observation(observation, info)

    def _run_hooks(self, stage: str) -> None:
        """Call the hooks in order, starting with `stage`, until one returns a request or a play prompt is due."""
        while stage:
            self._stage = stage
            if stage == BEFORE_PLAY:
                request = self._calls.ask_belief(self.memory_view(), self._unseen_end() if self._chat else None)
            else:
                request = self._calls.call(stage, self.memory_view, self._is_last())
            if request is not None:
                self._send_prompt(request.text)
                return
            stage = self._next_hook()

    def _next_hook(self) -> str:
        """Advance past the current hook. Return the next one, or "" if a play prompt is due or no episode is left."""
        if self._stage == AFTER_TURN:
            return AFTER_EPISODE if self._ended else BEFORE_TURN
        if self._stage == AFTER_EPISODE:
            if self._is_last():
                self._calls.end()
                # The last observation needs no answer, so it does not extend the conversation.
                self._chat.clear()
                self._chat.add_user_message(self._shown)
                return ""
            self._start_episode(self._episode.index + 1)
            return BEFORE_EPISODE
        if self._stage == BEFORE_EPISODE:
            self._calls.settle(self._chat, self._episode.index)
            if self._calls.question is None:
                return BEFORE_TURN
            self._chat.open_aside()
            return BEFORE_PLAY
        if self._stage == BEFORE_PLAY:
            self._chat.close_aside()
            return BEFORE_TURN
        self._calls.play()
        self._ask_play()
        return ""

    def _is_last(self) -> bool:
        """Return True if the episode has ended and no other one follows."""
        if not self._ended:
            return False
        return self._episode.index + 1 >= self.num_episodes or (self.protocol.early_stop and self.records[-1].success)

    def _update_observation(self, observation: str, info: dict[str, Any]) -> None:
        """Store the observation and the `info` of the environment."""
        self._info, self._shown, self._hand = info, observation, info.get("hand", 0)
        self._turn = turn = Turn.from_info(info, observation, self._episode.index)
        # The last `info` of an episode names the opponent in any case.
        if turn.opponent is not None and not self._reveals:
            self._turn = turn = turn._replace(opponent=None)
        # Prompts and memories list the legal actions of a turn, unless the game hides them.
        if not self._frame.spec.shows_legal_actions:
            self._turn = turn._replace(legal_actions=())

    # -- prompts --------------------------------------------------------------------------------------------

    def memory_view(self) -> MemoryView:
        """Return the view that the memory's hooks receive."""
        episode = self._episode
        return MemoryView(
            frame=self._frame,
            records=self.records,
            style=self.style,
            continuing=bool(self._chat),
            window=self.env_metadata.settings.reflect_window,
            episode=episode.index,
            first_observation=episode.first_observation,
            turn=None if self._ended or self._stage in (AFTER_EPISODE, BEFORE_EPISODE) else self._turn,
            turns=episode.turns,
            category=private_info(self._info).get("category"),
        )

    def _ask_play(self) -> None:
        episode = self._episode
        last_turn = episode.turns[-1] if episode.turns else None
        if not self._chat:
            self._send_prompt(self.style.play(self._play_view(last_turn)))
            return
        view = ContinueView(
            frame=self._frame,
            episode=episode.index,
            turn=self._turn,
            observation=self._shown,
            last=last_turn,
            hand=self._hand,
            answer=episode.answers_in_hand + 1,
            previous=self._unseen_end() if last_turn is None else None,
            thinking=episode.thinking,
            instruction=self._calls.memory.instruction,
        )
        self._send_prompt(self.style.continue_play(view))

    def _play_view(self, last_turn: TurnRecord | None) -> PlayView:
        settings, episode = self.env_metadata.settings, self._episode
        turns = episode.newest_turns(settings.history_window)
        return PlayView(
            frame=self._frame,
            episode=episode.index,
            first_observation=episode.first_observation,
            turn=self._turn,
            observation=self._shown,
            turns=turns,
            full_turns=settings.full_turns,
            omitted=len(episode.turns) - len(turns),
            memory=self._calls.render(self.memory_view()),
            last=last_turn,
            hand=self._hand,
            answer=episode.answers_in_hand + 1,
            heading=self._calls.memory.heading,
            thoughts=self._calls.thoughts(turns),
            thinking=episode.thinking,
            instruction=self._calls.memory.instruction,
        )

    def _unseen_end(self) -> EpisodeRecord | None:
        """Return the previous episode if no message of the chat has stated its end yet, otherwise None."""
        # A reflection prompt already states how the episode ended; the play prompt must not repeat it.
        untold = self.records and self._chat.known_episodes != len(self.records)
        return self._calls.control.previous(self.records) if untold else None

    def _send_prompt(self, text: str) -> None:
        self._chat.known_episodes = len(self.records)
        self._chat.add_user_message(text)

    def _shorten(self) -> bool:
        """Drop the oldest item of the prompt (memory first, then turns). Return False if there is none."""
        if self._chat.converses:
            return self._chat.shorten()
        # The text of a request belongs to the strategy, so it cannot be shortened here.
        if self._calls.pending is not None:
            return False
        if not self.memory.shorten() and not self._episode.drop_oldest(self.env_metadata.settings.history_window):
            return False
        self._ask_play()
        return True

    # -- info -----------------------------------------------------------------------------------------------

    def _make_info(self, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the `info` of a step: facts about the next answer, and the entries of the last one (`entries`)."""
        request, running, env_info, turn = self._calls.pending, self._calls.running, self._info, self._turn
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
            "legal_actions": env_info.get("legal_actions", ()) if playing else (),
            "anchor": turn.observation if playing else "reflection",
            "answer_tag": self.style.action_tag if request is None else self._calls.tag(self.style.remark_tag),
            **entries,
        }
        if playing:
            info["information_state"], info["history"] = turn.information_state, turn.history
            info |= {"action_words": words} if (words := self.style.spell_actions(turn)) else {}
        private, hidden = info.setdefault("private", {}), private_info(env_info)
        if hidden:
            pass_on(private, hidden, playing=playing, running=running)
        if self._reveals or not running:
            private["opponent"] = hidden.get("opponent", "")
        private.update(self._calls.control.to_info())
        return info
