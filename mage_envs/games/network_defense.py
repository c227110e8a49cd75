"""Network defence: a defender watches hosts, and an attacker with a hidden habit steals from them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import Round, RoundsGame, StageGame, together
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings

WORTH: Mapping[str, float] = {"database": 6, "mailbox": 4, "website": 2, "backup": 5, "payroll": 3, "printer": 1}
"""Host to what a strike steals there. A game has the first hosts."""
WAIT = "wait"
STRIKE, PROBE = "strike", "probe"
SHARE: Mapping[str, float] = {STRIKE: 1.0, PROBE: 0.5}
"""Way to attack a host, to the share of its worth that is stolen."""
SENSORS: Mapping[str, tuple[float, Sequence[str]]] = {
    "good": (0.4, (STRIKE, PROBE)),
    "weak": (0.4, (STRIKE,)),
    "down": (0.2, ()),
}
"""State of the sensors in a hand, to its probability and the attacks that they report."""
SILENT = "silent"
_MOST_ROUNDS = 6
"""Maximum rounds. Every further one multiplies the positions by about 15."""


def hosts_of(action: str) -> tuple[str, ...]:
    """Return the hosts in an action: those that are watched, or the one that is attacked; none for `wait`."""
    return tuple(word for word in action.split()[1:] if word != "and")


@dataclass(frozen=True)
class DefenseRound(StageGame):
    """One round. `first` are the watched hosts, `second` is the attack."""

    rounds: int
    hosts: tuple[str, ...]
    choices: tuple[tuple[str, ...], tuple[str, ...]]

    def result(self, number: int, choices: tuple[str, str], deal: Hashable) -> Round:
        watched, attack = choices
        # A deal is the state of the sensors for a whole hand, so all chance is in the first state.
        way, hosts = attack.split()[0], hosts_of(attack)
        signal = SILENT
        if hosts and hosts[0] in hosts_of(watched):
            signal = f"caught-{hosts[0]}"
        elif hosts and way in SENSORS[str(deal)][1]:
            signal = f"alert-{hosts[0]}"
        return Round(watched, attack, signal=signal)

    def stolen(self, outcome: Round) -> float:
        """Return what the attacker steals in a round."""
        hosts = hosts_of(outcome.second_choice)
        if not hosts or outcome.signal.startswith("caught"):
            return 0.0
        return WORTH[hosts[0]] * SHARE[outcome.second_choice.split()[0]]

    def payoffs(self, outcome: Round) -> tuple[float, float]:
        return -self.stolen(outcome), self.stolen(outcome)

    def is_over(self, outcomes: Sequence[Round]) -> bool:
        return super().is_over(outcomes) or bool(outcomes and outcomes[-1].signal.startswith("caught"))

    def words(self, outcome: Round, seat: int) -> tuple[str, ...]:
        watched, attack = (action.replace(" ", "-") for action in outcome.of(0))
        return (attack, watched) if seat else (watched, outcome.signal)

    def start_words(self, seat: int) -> tuple[str, ...]:
        return ("attacker" if seat else "defender",)

    def end_words(self, outcomes: Sequence[Round], seat: int) -> tuple[str, ...]:
        # The attacker knows what it stole; the defender learns the sum when the hand is over.
        return () if seat else (f"lost-{self._total(outcomes):g}",)

    def _total(self, outcomes: Sequence[Round]) -> float:
        return sum(self.stolen(outcome) for outcome in outcomes)

    def line(self, outcome: Round, seat: int) -> str:
        watched = " and ".join(f"the {host}" for host in hosts_of(outcome.first_choice))
        hosts = hosts_of(outcome.second_choice)
        caught = outcome.signal.startswith("caught")
        if seat == 0:
            result = "there is no alert"
            if caught:
                result = f"you catch the attacker at the {hosts[0]}"
            elif outcome.signal != SILENT:
                result = f"an alert reports an attack on the {hosts[0]}"
            return f"you watch {watched}: {result}."
        act = f"you {outcome.second_choice.split()[0]} the {hosts[0]}" if hosts else "you wait"
        gain = "you are caught" if caught else f"you steal {self.stolen(outcome):g}"
        return f"{act}, {watched} {'is' if len(hosts_of(outcome.first_choice)) == 1 else 'are'} watched: {gain}."

    def question(self, seat: int) -> str:
        if seat:
            return "Which host do you strike or probe, or do you wait?"
        return f"Which {'host' if len(hosts_of(self.choices[0][0])) == 1 else 'hosts'} do you watch?"

    def verdict(self, outcomes: Sequence[Round], seat: int) -> str:
        total = together([self._total(outcomes)], "point")
        return f"you stole {total}." if seat else f"the attacker stole {total}."

    def won(self, mean: float, seat: int) -> bool:
        # One strike on the first host, which is the worst that can happen in a round.
        limit = max(WORTH[host] for host in self.hosts) / self.rounds
        return mean > limit if seat else mean >= -limit


NEUTRAL = {
    "Network defence": "Game",
    "defender": "keeper",
    "attacker": "visitor",
    "attack": "visit",
    "attacks": "visits",
    "host": "place",
    "hosts": "places",
    "watch": "open",
    "watches": "opens",
    "watched": "opened",
    "strike": "run to",
    "strikes": "runs to",
    "probe": "walk to",
    "probes": "walks to",
    "steal": "take",
    "steals": "takes",
    "stole": "took",
    "stolen": "taken",
    "alert": "bell",
    "alerts": "bells",
    "sensors": "bells of the hand",
    "catch": "meet",
    "caught": "met",
    **dict(zip(WORTH, ("circle", "square", "star", "cross", "wave", "ring"), strict=True)),
}
"""Words for the style `neutral`."""


def _facts(stage: DefenseRound) -> GameSpec:
    worth = ", ".join(f"the {host} {WORTH[host]:g}" for host in stage.hosts)
    watches = len(hosts_of(stage.choices[0][0]))
    top = max(WORTH[host] for host in stage.hosts)
    return GameSpec(
        name="NetworkDefense",
        rules=(
            f"Network defence, {stage.rounds} round{'s' * (stage.rounds != 1)}. In each round the first player, the "
            f"defender, watches {watches} of {len(stage.hosts)} hosts, and the second player, the attacker, strikes a "
            "host, probes a host, or waits, both at the same time. At a watched host the attacker is caught, and the "
            "hand is over. Elsewhere a strike steals what the host is worth in points, and a probe half of that: "
            f"{worth}. A host can be attacked again and again. The defender does not see the attacks, but has sensors: "
            "in 4 of 10 hands they report every attack, in 4 of 10 only strikes, and in 2 of 10 they are down and "
            "report nothing; the defender is not told which. When the hand is over, it learns what was stolen in all. "
            "The attacker learns after each round what was watched. As the defender, lose as few points as you can; as "
            "the attacker, steal as many as you can."
        ),
        unit="points per round",
        min_return=-top,
        max_return=top,
        # A hand needs one action per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=2 * stage.rounds,
        actions=(*stage.choices[0], *stage.choices[1]),
        neutral=NEUTRAL,
    )


def _stage(rounds: int, hosts: int, watches: int) -> DefenseRound:
    names = tuple(WORTH)[:hosts]
    attacks = (*(f"{way} {host}" for way in SHARE for host in names), WAIT)
    watched = tuple(f"watch {' and '.join(chosen)}" for chosen in combinations(names, watches))
    return DefenseRound(rounds, names, (watched, attacks))


class NetworkDefense(RoundsGame):
    """Network defence in three rounds: the learner watches one of three hosts for an attacker with a hidden habit.

    Rules: in each of 3 rounds the defender (first seat) watches one of three hosts: database, mailbox and website. At
    the same time the attacker (second seat) strikes a host, probes one, or waits. If it attacks the watched host, it is
    caught, and the hand is over. Otherwise a strike steals the worth of the host (database 6, mailbox 4, website 2
    points) and a probe half of it. Sensors report attacks with the name of the host. Chance draws their state for each
    hand: in 4 of 10 hands they report everything, in 4 of 10 only strikes, and in 2 of 10 nothing. So probes raise half
    as many alerts as strikes. The defender does not know the state. At the end of the hand it learns the sum of what
    was stolen. The attacker learns what was watched after each round.

    Actions: `watch database`, and for an attacker `strike database`, `probe database`, `wait`.

    Observation: the finished rounds as the player knows them. The learner is the defender by default.

    Returns: the attacker's points per round of the hand; the defender's return is their negative.

    Success: for the defender, at most as many points are stolen as by one strike on the best host; for the attacker,
    more than that.

    Versions: v0.

    Args:
        rounds: Rounds in a hand (default: 3, at most 6). With more than 3 the tree may be too large for exact values.
        hosts: Number of hosts (default: 3, from 2 to 6). Further ones are backup 5, payroll 3 and printer 1.
        watches: Hosts that are watched in each round (default: 1, fewer than the hosts).

    Raises:
        ValueError: If an option is out of range.
    """

    spec = _facts(_stage(rounds=3, hosts=3, watches=1))

    def __init__(self, rounds: int = 3, hosts: int = 3, watches: int = 1) -> None:
        check_positive("rounds", rounds, _MOST_ROUNDS)
        check_positive("hosts", hosts, len(WORTH))
        check_positive("watches", watches)
        if watches >= hosts:
            raise ValueError(f"watches={watches} must be less than hosts={hosts}.")
        stage = _stage(rounds, hosts, watches)
        self.hosts = stage.hosts
        super().__init__(_facts(stage), stage, [(chance, state) for state, (chance, _) in SENSORS.items()])


SETTINGS = GameSettings(opponent="pool:network/habits", seat="first", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="NetworkDefense",
    entry_point=f"{__name__}:NetworkDefense",
    settings=SETTINGS,
    opponents={"network": "mage_envs.opponents.games.network_defense"},
)
