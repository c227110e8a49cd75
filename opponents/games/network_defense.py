"""Opponents of network defence: attackers with habits in the second seat, defenders with the same aims in the first."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import cast

from mage_envs.core import Game, Turn
from mage_envs.games.network_defense import PROBE, STRIKE, WAIT, WORTH, NetworkDefense, hosts_of
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy, probability_of

_GAMES = ("NetworkDefense",)


def hosts_in(turn: Turn) -> list[str]:
    """Return the hosts of the game, the most valuable first."""
    return sorted({host for action in turn.legal_actions for host in hosts_of(action)}, key=lambda host: -WORTH[host])


def watched_in(turn: Turn) -> list[Sequence[str]]:
    """Return the watched hosts of each finished round, as either seat knows them."""
    watches = [word.split("-") for word in turn.information_state.split() if word.startswith("watch-")]
    return [[host for host in words[1:] if host != "and"] for words in watches]


def attack(turn: Turn, way: str, host: str) -> str:
    """Return the action that attacks a host; in the first seat, the first one that watches it."""
    if turn.player == 0:
        return next(action for action in turn.legal_actions if host in hosts_of(action))
    return f"{way} {host}"


def prefer(host: str, probability: float, turn: Turn) -> Mapping[str, float]:
    """Return `probability` for a strike on `host`, and equal shares of the rest for strikes on the others."""
    hosts = hosts_in(turn)
    row: dict[str, float] = {}
    for other in hosts:
        action = attack(turn, STRIKE, other)
        chance = probability if other == host else (1 - probability) / (len(hosts) - 1)
        # With two watches, one action covers several hosts.
        row[action] = row.get(action, 0.0) + chance
    return row


def wait_for_quiet(rounds: int, turn: Turn) -> Mapping[str, float]:
    """Return the strike on the most valuable host that was not watched in the last rounds; it waits for them first."""
    recent = watched_in(turn)[-rounds:]
    quiet = [host for host in hosts_in(turn) if not any(host in watched for watched in recent)]
    if turn.player == 1 and (len(recent) < rounds or not quiet):
        return {WAIT: 1.0}
    return {attack(turn, STRIKE, (quiet or hosts_in(turn))[0]): 1.0}


def probe_best(turn: Turn) -> Mapping[str, float]:
    """Return the probe of the most valuable host."""
    return {attack(turn, PROBE, hosts_in(turn)[0]): 1.0}


def hosts_of_game(game: Game) -> list[str]:
    """Return the hosts of a game of NetworkDefense, the most valuable first. Raise TypeError for another game."""
    if not isinstance(game, NetworkDefense):
        raise TypeError(f"Opponents of NetworkDefense expect NetworkDefense, got {game.spec.name}.")
    return sorted(game.hosts, key=lambda host: -WORTH[host])


@register_opponent("network/favourite", games=_GAMES, needs_game=True)
def favourite(game: Game, host: str = "database", probability: float = 0.8) -> RulePolicy:
    """Return an opponent that strikes its favourite host with `probability`, and each other one equally often."""
    hosts = hosts_of_game(game)
    if host not in hosts:
        raise ValueError(f"Opponent 'network/favourite': host must be one of {', '.join(hosts)}, got {host!r}.")
    return RulePolicy(partial(prefer, host, probability_of("network/favourite", probability)))


@register_opponent("network/patient", games=_GAMES)
def patient(rounds: int = 2) -> RulePolicy:
    """Return an opponent that strikes only a host which was not watched for 2 rounds of the hand.

    `network/patient:1` waits for one such round.
    """
    if rounds < 1:
        raise ValueError(f"Opponent 'network/patient': rounds must be at least 1, got {rounds}.")
    return RulePolicy(partial(wait_for_quiet, rounds))


@register_opponent("network/stealthy", games=_GAMES)
def stealthy() -> RulePolicy:
    """Return an opponent that probes the most valuable host in every round, with half as many alerts as strikes."""
    return RulePolicy(probe_best)


@register_opponent("network/careful", games=_GAMES, needs_game=True, kind="learning")
class Careful(LearningPolicy):
    """An attacker that avoids the hosts where it was caught; it strikes the most valuable other one.

    After it was caught at every host, it forgets all of them. A defender of this kind watches the same hosts.
    """

    start: Hashable = ()

    def __init__(self, game: Game) -> None:
        self._hosts = hosts_of_game(game)

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        caught = cast("tuple[str, ...]", memory)
        return {attack(turn, STRIKE, next(host for host in self._hosts if host not in caught)): 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        caught = cast("tuple[str, ...]", memory)
        # The words of the last round: the attacker's own choice, and what was watched. A defender is never caught.
        attacked, watched = (word.split("-")[1:] for word in turn.information_state.split()[-2:])
        if turn.player == 1 and attacked and attacked[0] in watched:
            caught = tuple(sorted({*caught, *attacked}))
        return () if len(caught) == len(self._hosts) else caught


register_pool(
    "network/habits",
    {
        **{f"network/favourite:{host}": 1 for host in ("database", "mailbox", "website")},
        **dict.fromkeys(("network/patient", "network/stealthy", "network/careful"), 1),
    },
)
register_split(
    "network",
    Split(
        game="NetworkDefense",
        seed=40,
        train="pool:network/habits",
        train_about="attackers with habits, and one that learns where it is caught",
        heldout=dict.fromkeys(
            ("network/favourite:database,.6", "network/favourite:mailbox,.6", "network/patient:1"), 1.0
        ),
        heldout_about="softer habits, and less patience",
    ),
)
