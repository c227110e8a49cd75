"""A second implementation of Sokoban, on sets of coordinates, searched forwards: the oracle of the oracle."""

from __future__ import annotations

from collections import deque

from mage_envs.games.sokoban.level import Drawing, Level

Cell = tuple[int, int]
State = tuple[Cell, frozenset[Cell]]
WAYS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def coordinates(mask: int, width: int) -> frozenset[Cell]:
    return frozenset(divmod(index, width) for index in range(mask.bit_length()) if mask >> index & 1)


def as_mask(cells: frozenset[Cell], width: int) -> int:
    return sum(1 << row * width + column for row, column in cells)


def board_text(level: Level) -> str:
    """The level's board, as the learner receives it."""
    return Drawing(level).text(level.boxes, level.player)


def move(floor: frozenset[Cell], state: State, way: Cell) -> State:
    """One move by the rules, as they are told."""
    (row, column), boxes = state
    ahead = (row + way[0], column + way[1])
    beyond = (row + 2 * way[0], column + 2 * way[1])
    if ahead not in floor:
        return state
    if ahead not in boxes:
        return ahead, boxes
    if beyond in floor and beyond not in boxes:
        return ahead, (boxes - {ahead}) | {beyond}
    return state


def start(level: Level) -> tuple[frozenset[Cell], frozenset[Cell], State]:
    """Floor, targets, and the state that the level starts in."""
    width = level.width
    (player,) = coordinates(level.player, width)
    return coordinates(level.floor, width), coordinates(level.targets, width), (player, coordinates(level.boxes, width))


def shortest(level: Level, limit: int) -> int | None:
    """Length of a shortest solution, None where there is none of up to `limit` moves."""
    floor, targets, first = start(level)
    seen, layer = {first}, [first]
    for moves in range(limit + 1):
        if any(boxes == targets for _, boxes in layer):
            return moves
        layer = [
            after
            for state in layer
            for way in WAYS
            if (after := move(floor, state, way)) not in seen and not seen.add(after)
        ]
    return None


def distances(level: Level) -> dict[State, int | None]:
    """Every state that play can reach, with the moves that it needs; None for dead ones."""
    floor, targets, first = start(level)
    before: dict[State, list[State]] = {first: []}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for way in WAYS:
            after = move(floor, state, way)
            if after not in before:
                before[after] = []
                queue.append(after)
            before[after].append(state)
    left: dict[State, int | None] = dict.fromkeys(before)
    queue = deque(state for state in before if state[1] == targets)
    left.update(dict.fromkeys(queue, 0))
    while queue:
        state = queue.popleft()
        needs = left[state]
        assert needs is not None
        for earlier in before[state]:
            if left[earlier] is None:
                left[earlier] = needs + 1
                queue.append(earlier)
    return left
