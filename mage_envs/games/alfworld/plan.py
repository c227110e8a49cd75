"""Plans by construction: the commands that win the game of a PDDL problem, in the fewest steps of their kind.

No planner is needed, because every task has one shape: fetch an object, do something to it, put it down.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations, product

from mage_envs.games.alfworld.compiled import visible_names

Expression = list["str | Expression"]
_VERBS = {
    "isclean": ("CleanObject", "sinkbasintype"),
    "ishot": ("HeatObject", "microwavetype"),
    "iscool": ("CoolObject", "fridgetype"),
}
"""State of the object in the goal to (action that causes it, kind of receptacle that the action needs)."""


class NoPlan(ValueError):
    """Error for a problem that cannot be read, or that has no plan of a known shape. The message names the part."""


@dataclass(frozen=True)
class PlanGoal:
    """The goal of a problem. All names are in lower case, such as `appletype`."""

    object_type: str
    parent_type: str | None
    """Kind of receptacle to put the object in. None: hold it at a lamp that was switched on."""
    state: str | None = None
    """`isclean`, `ishot` or `iscool`."""
    lamp_type: str | None = None
    count: int = 1


@dataclass
class Problem:
    """The facts of the first state by id, in lower case."""

    start: str = ""
    receptacle_type: dict[str, str] = field(default_factory=dict)
    location: dict[str, str] = field(default_factory=dict)
    """Receptacle to the location in front of it."""
    object_type: dict[str, str] = field(default_factory=dict)
    inside: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Object to the receptacles that hold it."""
    fits: set[tuple[str, str]] = field(default_factory=set)
    """Pairs (receptacle type, object type) of which the first can contain the second."""
    marks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Unary facts (`openable`, `pickupable`, `cleanable`, ...) to ids."""
    goal: PlanGoal = field(default_factory=lambda: PlanGoal("", None))
    names: dict[str, str] = field(default_factory=dict)
    """Id to the name in the game's text."""


def read_problem(text: str) -> Problem:
    """Return the problem of a PDDL text. Raise NoPlan if it is not an ALFWorld problem."""
    parts = {part[0]: part for part in _expression(text.lower()) if isinstance(part, list) and part}
    if ":init" not in parts or ":goal" not in parts:
        raise NoPlan("the problem has no (:init ...) or no (:goal ...)")
    problem = Problem()
    ids: set[str] = set()
    for fact in parts[":init"][1:]:
        words = [word for word in fact if isinstance(word, str)]
        # The numbers in the names count all ids of the facts, also those that no plan uses.
        ids.update(words[1:])
        _note(problem, words)
    problem.goal = _goal(parts[":goal"])
    problem.names = visible_names(ids)
    return problem


def _note(problem: Problem, words: list[str]) -> None:
    match words:
        case ["atlocation", _, place]:
            problem.start = place
        case ["receptacletype", receptacle, kind]:
            problem.receptacle_type[receptacle] = kind
        case ["receptacleatlocation", receptacle, place]:
            problem.location[receptacle] = place
        case ["objecttype", thing, kind]:
            problem.object_type[thing] = kind
        case ["inreceptacle", thing, receptacle]:
            problem.inside[thing].append(receptacle)
        case ["cancontain", receptacle_type, object_type]:
            problem.fits.add((receptacle_type, object_type))
        case [mark, thing]:
            problem.marks[mark].add(thing)


def _expression(text: str) -> Expression:
    """Return the outermost bracket of a text as nested lists. A comment starts at `;` and ends with the line."""
    stack: list[Expression] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text)):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise NoPlan("the problem has an extra closing bracket")
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or not stack[0] or not isinstance(stack[0][0], list):
        raise NoPlan("the problem's brackets do not match")
    return stack[0][0]


def _atoms(expression: Expression) -> Iterator[list[str]]:
    words = [word for word in expression if isinstance(word, str)]
    if len(words) == len(expression):
        yield words
    for part in expression:
        if isinstance(part, list):
            yield from _atoms(part)


def _goal(expression: Expression) -> PlanGoal:
    atoms = list(_atoms(expression))
    kinds = {words[1]: words[2] for words in atoms if words[:1] == ["objecttype"] and len(words) == 3}
    parents = [words[2] for words in atoms if words[:1] == ["receptacletype"] and len(words) == 3]
    states = [words[0] for words in atoms if words and words[0] in _VERBS]
    lamps = [kinds[words[1]] for words in atoms if words[:1] == ["istoggled"] and words[1] in kinds]
    held_ids = [words[2] for words in atoms if words[:1] == ["holds"] and len(words) == 3]
    if lamps and held_ids and held_ids[0] in kinds:
        return PlanGoal(kinds[held_ids[0]], None, lamp_type=lamps[0])
    if parents and kinds and len(set(kinds.values())) == 1 and len(states) <= 1:
        return PlanGoal(next(iter(kinds.values())), parents[0], states[0] if states else None, count=len(kinds))
    raise NoPlan("the goal is none of the six kinds of task")


class Dialect:
    """The spelling of the commands in a game's grammar.

    Releases of the data differ: `put X in/on Y` or `move X to Y`.
    """

    def __init__(self, grammar: str) -> None:
        self._templates = {
            action: re.sub(r"\[\{(\w+)\.name[^\]]*\]", r"{\1}", template)
            for action, template in re.findall(r'action (\w+) \{\s*template :: "([^"]*)"', grammar)
        }

    def command(self, action: str, receptacle: str = "", object_name: str = "") -> str:
        """Return the command of an action. Raise NoPlan if the grammar has no such action."""
        template = self._templates.get(action)
        if template is None:
            raise NoPlan(f"the grammar has no action {action}")
        return template.replace("{r}", receptacle).replace("{o}", object_name)


class _Walk:
    """The commands of one candidate plan, with the state that they change."""

    def __init__(self, problem: Problem, dialect: Dialect) -> None:
        self._problem = problem
        self._dialect = dialect
        self._at = problem.start
        self._open = set(problem.marks["opened"])
        self.commands: list[str] = []

    def _say(self, action: str, receptacle: str, object_id: str = "") -> None:
        names = self._problem.names
        self.commands.append(self._dialect.command(action, names[receptacle], names.get(object_id, "")))

    def reach(self, receptacle: str, inside: bool) -> None:
        """Go to the receptacle unless already there. If its inside is needed, open it."""
        location = self._problem.location[receptacle]
        if location != self._at:
            self._say("GotoLocation", receptacle)
            self._at = location
        if inside and receptacle in self._problem.marks["openable"] and receptacle not in self._open:
            self._say("OpenObject", receptacle)
            self._open.add(receptacle)

    def take(self, object_id: str, receptacle: str) -> None:
        self.reach(receptacle, inside=True)
        self._say("PickupObject", receptacle, object_id)

    def put(self, object_id: str, receptacle: str) -> None:
        self.reach(receptacle, inside=True)
        self._say("PutObject", receptacle, object_id)

    def treat(self, action: str, object_id: str, receptacle: str) -> None:
        # The domain requires the location of the appliance, not an open door.
        self.reach(receptacle, inside=False)
        self._say(action, receptacle, object_id)


def shortest_plan(problem_text: str, grammar: str) -> tuple[str, ...]:
    """Return the commands that win the game of a PDDL problem and a text grammar. Raise NoPlan if there are none.

    The plan is the shortest among all choices of objects, appliances and destinations. Two objects are moved one after
    the other.
    """
    return plan_for(read_problem(problem_text), Dialect(grammar))


def plan_for(problem: Problem, dialect: Dialect) -> tuple[str, ...]:
    """Return the commands of `shortest_plan` for a problem that was read. Raise NoPlan if there are none."""
    walks = _lamp_walks(problem, dialect) if problem.goal.lamp_type else _placing_walks(problem, dialect)
    best = min(walks, key=len, default=None)
    if best is None:
        raise NoPlan(f"nothing in the problem fits its goal {problem.goal}")
    return tuple(best)


def _find_objects(problem: Problem, object_kind: str | None, mark: str) -> list[tuple[str, str]]:
    """Return (object, receptacle that holds it) of all reachable objects of that kind with that mark."""
    return [
        (object_id, receptacle)
        for object_id, kind in problem.object_type.items()
        if kind == object_kind and object_id in problem.marks[mark]
        for receptacle in problem.inside.get(object_id, ())
        if receptacle in problem.location
    ]


def _lamp_walks(problem: Problem, dialect: Dialect) -> Iterator[list[str]]:
    sources = _find_objects(problem, problem.goal.object_type, "pickupable")
    lamps = _find_objects(problem, problem.goal.lamp_type, "toggleable")
    for (object_id, source), (lamp, stand) in product(sources, lamps):
        walk = _Walk(problem, dialect)
        walk.take(object_id, source)
        walk.treat("ToggleObject", lamp, stand)
        yield walk.commands


def _placing_walks(problem: Problem, dialect: Dialect) -> Iterator[list[str]]:
    goal = problem.goal
    sources = _find_objects(problem, goal.object_type, "pickupable")
    action, appliance_type = _VERBS.get(goal.state or "", ("", ""))
    able = {"CleanObject": "cleanable", "HeatObject": "heatable", "CoolObject": "coolable"}.get(action)
    appliances: list[str] = _receptacles(problem, appliance_type) if action else [""]
    if able is not None:
        sources = [(object_id, source) for object_id, source in sources if object_id in problem.marks[able]]
    if (goal.parent_type, goal.object_type) not in problem.fits:
        return
    for parent in _receptacles(problem, goal.parent_type):
        # An object that is in its destination already needs no trip, unless its state has to change first.
        placed_ids = {object_id for object_id, source in sources if source == parent} if not action else set()
        fetches = [(object_id, source) for object_id, source in sources if object_id not in placed_ids]
        for trips in permutations(fetches, max(goal.count - len(placed_ids), 0)):
            # An object that two receptacles hold is listed twice, but it can only be moved once.
            if len({object_id for object_id, _ in trips}) < len(trips):
                continue
            for appliance in appliances:
                walk = _Walk(problem, dialect)
                for object_id, source in trips:
                    walk.take(object_id, source)
                    if action:
                        walk.treat(action, object_id, appliance)
                    walk.put(object_id, parent)
                yield walk.commands


def _receptacles(problem: Problem, kind: str | None) -> list[str]:
    return [
        receptacle
        for receptacle, type_ in problem.receptacle_type.items()
        if type_ == kind and receptacle in problem.location
    ]
