"""`TableWalk`: how the rollout loop drives a `MetaEpisode` over a small table game; same bytes, a fraction of the time.

In a conversation about such a game few different things can happen between two answers, and a built-in style words them
by what happened alone: each text is made once and found again by one lookup. What is out of the ordinary (an illegal or
cut answer, a prompt that is too long) the real `MetaEpisode` plays, which is brought to the same point first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from mage_envs.core import EpisodeReward, HandResult, Turn
from mage_envs.env import no_draw
from mage_envs.games.table import TableGame, TableNode, most_turns
from mage_envs.randomness import FEW, GAME, OPPONENT, SEEDS_KEPT, KeyedStreams
from mage_envs.table_env import TableEnv
from mage_envs.text.generation import Message
from mage_envs.text.parser import parse_tag
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, Prose, TurnRecord
from mage_envs.text.words import KuhnWords
from wrappers.memory import EpisodicMemory
from wrappers.meta_episode import MetaEpisode, message
from wrappers.results import Asked, EpisodeResult, Outcome

MOST = 100_000
"""Texts, and courses of an episode, that one library keeps."""
_Key = tuple[str, str, str]
"""Before the answer: the information state; the answer; the result of the hand that it ended."""
_bare = lru_cache(maxsize=4096)(partial(message, "assistant"))
_ON = Outcome(None)
"""A legal answer after which the hand goes on."""


class Course(NamedTuple):
    """The hands of an episode so far, and what they are worth."""

    hands: tuple[HandResult, ...]
    paid: float
    outcome: Outcome
    """Of the answer that ended the last of them."""
    finished: EpisodeResult | None
    after: dict[tuple[float, int], Course]
    """By the next hand's value and seat."""


Deals = dict[int, tuple[TableNode, Sequence[float]]]
"""The root of each hand of a meta-episode, and the first draws of the opponent's stream."""


def _no_deals(seed: int) -> Deals:
    return {}


class Library:
    """What all walks with equal settings share: texts, and courses of an episode."""

    def __init__(self) -> None:
        self.texts: dict[tuple[Any, ...], Message] = {}
        self.asked: dict[tuple[int, TableNode], Asked] = {}
        self.start = Course((), 0.0, _ON, None, {})
        self.deals = lru_cache(SEEDS_KEPT)(_no_deals)
        """By seed, which the members of a group share."""
        self._courses = 0

    def keep(self, key: tuple[Any, ...], text: Message) -> Message:
        if len(self.texts) < MOST:
            self.texts[key] = text
        return text

    def after(self, course: Course, hand: HandResult, env: MetaEpisode) -> Course:
        """The course with one more hand."""
        hands = (*course.hands, hand)
        planned = env.game_env.hands_per_episode
        paid = float(env.episode_reward(hands, planned))
        finished = None
        if len(hands) == planned:
            value = float(sum([hand.value for hand in hands]))
            seats = tuple(hand.seat for hand in hands)
            finished = EpisodeResult(paid, value, planned, env.game_env.game.is_success(hands), False, seats, {})
        made = Course(hands, paid, Outcome(None, 0.0, paid - course.paid, True, finished is not None), finished, {})
        if self._courses < MOST:
            course.after[hand.value, hand.seat] = made
            self._courses += 1
        return made


@lru_cache(maxsize=64)
def _library(roots: tuple[TableNode, ...], reward: EpisodeReward, *settings: Any) -> Library:
    return Library()


@lru_cache(maxsize=64)
def _always_asked(roots: tuple[TableNode, ...]) -> bool:
    """Whether no hand can be over before both players had a turn."""

    def asked(node: TableNode, seat: int) -> bool:
        if node.player is None or node.player == seat:
            return node.player == seat
        return all(asked(child, seat) for child in node.children.values())

    return all(asked(root, seat) for root in roots for seat in (0, 1))


class TableWalk:
    """Plays what a `MetaEpisode` would play, behind the attributes and methods of it that a rollout uses."""

    # Together in one object, as in MetaEpisode.
    __slots__ = (
        "_alternates",
        "_chat",
        "_course",
        "_deals",
        "_draw",
        "_few",
        "_game",
        "_hands",
        "_left",
        "_library",
        "_node",
        "_number",
        "_random",
        "_real",
        "_replays",
        "_replies",
        "_results",
        "_root",
        "_said",
        "_seat",
        "_seat0",
        "_start",
        "_streams",
        "_tag",
        "asked",
        "episode",
        "fresh_chat",
        "game_env",
        "messages",
        "num_episodes",
        "opponent_name",
        "over",
    )

    @staticmethod
    def suits(env: MetaEpisode) -> bool:
        """Whether every legal course of the meta-episode is an ordinary one."""
        inner, game, memory = env.game_env, env.game_env.game, env.memory
        return (
            env.converses
            and type(env.style) in (Prose, KuhnWords)
            and type(memory) is EpisodicMemory
            and not memory.reflects
            and isinstance(game, TableGame)
            and TableEnv.suits(game)
            and game.num_players == 2
            and inner.render_mode != "human"
            and _always_asked(game.all_roots())
            and most_turns(game.all_roots()) <= inner.max_turns
        )

    def __init__(self, env: MetaEpisode) -> None:
        """`env` must suit."""
        inner, game = env.game_env, env.game_env.game
        if not isinstance(game, TableGame):
            raise TypeError(f"A TableWalk needs a TableGame, not {game.name}.")
        roots = game.all_roots()
        self._real, self._game, self.game_env = env, game, inner
        self.num_episodes = env.num_episodes
        self._tag = env.style.action_tag
        self._hands = inner.hands_per_episode
        self._replays = env.replays
        self._root = roots[0] if len(roots) == 1 else None
        self._few = most_turns(roots) <= FEW
        self._alternates = inner.seat_mode == "alternate"
        self._library = _library(
            roots,
            env.episode_reward,
            type(game),
            game.rules,
            type(env.style),
            env.num_episodes,
            inner.hands_per_episode,
            inner.max_turns,
            env.protocol.early_stop,
            env.memory.carries_transcript,
            env.replays,
        )
        self.over, self._left = True, False
        self._node: TableNode
        self._said: list[str]
        self._streams: KeyedStreams

    def prepare(self, seeds: Sequence[int]) -> None:
        """As `MetaEpisode.prepare`."""
        self._real.prepare(seeds)

    def begin(self, seed: int, options: dict[str, Any] | None = None) -> None:
        """As `MetaEpisode.begin`."""
        self._streams, self._seat0, seated = self._real.draw(seed, options)
        self._deals = self._library.deals(seed)
        self._start, self._said = (seed, options), []
        self.opponent_name = seated.name
        self.over = self._left = False
        self._results: list[EpisodeResult] = []
        if seated.replies is None or seated.remembering or seated.watching or self.game_env.on_result is not None:
            self._leave()
            return
        self._replies, self._random = seated.replies, seated.draws
        self._draw: Callable[[], float] = no_draw
        self.episode = 0
        self._course = self._library.start
        self._deal()
        self._open()

    def answer(self, reply: str) -> Outcome:
        """As `MetaEpisode.answer`."""
        if self._left or self.over or type(reply) is not str:
            return self._by_the_book(reply)
        before, seat = self._node, self._seat
        found = before.accepted.get(reply if self._tag is None else parse_tag(reply, self._tag) or "")
        if found is None:
            return self._by_the_book(reply)
        self._said.append(reply)
        self._chat.append(_bare(reply) if self._tag is None else message("assistant", reply))
        action, node = found
        if node.player is not None:
            node = self._replies.respond(node, seat, self._draw)
        if node.player is not None:
            self._node = node
            key = (before.keys[seat], action, "", node)
            self._ask(self._library.texts.get(key) or self._go_on(key, before, seat))
            return _ON
        value = node.returns[seat]
        course = self._course.after.get((value, seat))
        if course is None:
            course = self._library.after(self._course, HandResult(value, False, seat), self._real)
        self._course = course
        if course.finished is None:
            self._deal()
            key = (before.keys[seat], action, node.observations[seat], self._node)
            self._ask(self._library.texts.get(key) or self._go_on(key, before, seat))
        else:
            self._end_episode(course.finished, (before.keys[seat], action, node.observations[seat]), before, seat)
        return course.outcome

    # -- the hands, as `TextGameEnv` deals them ------------------------------------------------------------------

    def _deal(self) -> None:
        """Starts the next hand and lets the opponent move first where it does."""
        hand = len(self._course.hands)
        self._number = number = self.episode * self._hands + hand
        self._seat = seat = (self._seat0 + number) % 2 if self._alternates else self._seat0
        root, draws = self._deals.get(number) or self._look_up(number, hand)
        if self._random:
            self._draw = iter(draws).__next__ if self._few else self._streams.uniforms(OPPONENT, self.episode, hand)
        self._node = root if root.player == seat else self._replies.respond(root, seat, self._draw)

    def _look_up(self, number: int, hand: int) -> tuple[TableNode, Sequence[float]]:
        root, streams = self._root, self._streams
        if root is None:
            root = self._game.root_at(streams.first(GAME, 0 if self._replays else self.episode, hand))
        self._deals[number] = found = root, streams.values(OPPONENT, self.episode, hand)
        return found

    def _end_episode(self, done: EpisodeResult, key: _Key, before: TableNode, seat: int) -> None:
        self._results.append(done)
        if self.episode + 1 == self.num_episodes or (self._real.protocol.early_stop and done.success):
            self.over = True
            return
        self.episode += 1
        self._course = self._library.start
        self._deal()
        if self._real.memory.carries_transcript:
            self._tell_episode((*key, self._node, self.episode, done.value, done.success), done, before, seat)
        else:
            self._open()

    # -- prompts, as `MetaEpisode` builds them -------------------------------------------------------------------

    def _ask(self, text: Message) -> None:
        chat, node, key = self._chat, self._node, (self._number, self._node)
        chat.append(text)
        self.messages = tuple(chat)
        self.fresh_chat = len(chat) == 1
        asked = self._library.asked.get(key)
        if asked is None:
            episode, hand = divmod(self._number, self._hands)
            asked = self._library.asked[key] = Asked("play", episode, hand, node.observations[self._seat], node.legal)
        self.asked = asked

    def _open(self) -> None:
        """Starts a chat."""
        key = (self.episode, self._node)
        text = self._library.texts.get(key)
        if text is None:
            env, game, inner = self._real, self._game, self.game_env
            now = self._node.observations[self._seat]
            view = PlayView(
                game.rules,
                self.episode,
                env.num_episodes,
                now,
                self._turn(),
                now,
                (),
                game.full_turns,
                0,
                "",
                None,
                0,
                inner.hands_per_episode,
                inner.max_turns,
                env.protocol.early_stop,
                False,
            )
            text = self._library.keep(key, message("user", env.style.play(view)))
        self._chat: list[Message] = []
        self._ask(text)

    def _go_on(self, key: tuple[str, str, str, TableNode], before: TableNode, seat: int) -> Message:
        """The text after an answer within an episode."""
        _, action, result, node = key
        last, now = self._record(before, seat, action, result), node.observations[self._seat]
        shown = f"{result}\n\n{now}" if result else now
        view = ContinueView(self.episode, self.num_episodes, self._turn(), shown, last)
        return self._library.keep(key, message("user", self._real.style.continue_play(view)))

    def _tell_episode(self, key: tuple[Any, ...], done: EpisodeResult, before: TableNode, seat: int) -> None:
        """Goes on after an answer that ended an episode."""
        text = self._library.texts.get(key)
        if text is None:
            _, action, result, node, episode, value, success = key
            last = self._record(before, seat, action, result)
            record = EpisodeRecord(
                episode - 1, "", (last,), result, done.reward, value, success, False, self._game.unit
            )
            view = ContinueView(episode, self.num_episodes, self._turn(), node.observations[self._seat], None, record)
            text = self._library.keep(key, message("user", self._real.style.continue_play(view)))
        self._ask(text)

    def _turn(self) -> Turn:
        node, seat = self._node, self._seat
        return Turn(seat, node.observations[seat], node.legal, node.keys[seat], self.episode)

    def _record(self, node: TableNode, seat: int, action: str, result: str) -> TurnRecord:
        turn = Turn(seat, node.observations[seat], node.legal, node.keys[seat], self.episode)
        return TurnRecord(turn.observation, action, turn, True, 0, result)

    # -- out of the ordinary -------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Has the real one play what was answered so far, and go on from there."""
        if self._left:
            return
        self._left = True
        real, (seed, options) = self._real, self._start
        real.begin(seed, options)
        for reply in self._said:
            real.answer(reply)
        self._copy()

    def _by_the_book(self, reply: str) -> Outcome:
        self._leave()
        outcome = self._real.answer(reply)
        self._copy()
        return outcome

    def results(self) -> tuple[EpisodeResult, ...]:
        """As `MetaEpisode.results`."""
        return tuple(self._results)

    def shorten(self) -> bool:
        """As `MetaEpisode.shorten`."""
        self._leave()
        shorter = self._real.shorten()
        self._copy()
        return shorter

    def _copy(self) -> None:
        real = self._real
        self.messages, self.fresh_chat, self.over = real.messages, real.fresh_chat, real.over
        self.asked = real.asked
        self._results = [*real.results()]


def fastest(env: MetaEpisode) -> MetaEpisode | TableWalk:
    """What a rollout drives `env` by; one walk for each environment."""
    if env.walk is None:
        env.walk = TableWalk(env) if TableWalk.suits(env) else env
    return env.walk
