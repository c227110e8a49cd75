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
    """Return the state after one move by the rules in the prompt."""
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
    """Return the length of a shortest solution, or None if no solution has at most `limit` moves."""
    floor, targets, first_state = start(level)
    reached, layer = {first_state}, [first_state]
    for moves in range(limit + 1):
        if any(boxes == targets for _, boxes in layer):
            return moves
        layer = [
            next_state
            for state in layer
            for way in WAYS
            if (next_state := move(floor, state, way)) not in reached and not reached.add(next_state)
        ]
    return None


def distances(level: Level) -> dict[State, int | None]:
    """Every state that play can reach, with the moves that it needs; None for dead ones."""
    floor, targets, first_state = start(level)
    predecessors: dict[State, list[State]] = {first_state: []}
    queue = deque([first_state])
    while queue:
        state = queue.popleft()
        for way in WAYS:
            next_state = move(floor, state, way)
            if next_state not in predecessors:
                predecessors[next_state] = []
                queue.append(next_state)
            predecessors[next_state].append(state)
    distance: dict[State, int | None] = dict.fromkeys(predecessors)
    queue = deque(state for state in predecessors if state[1] == targets)
    distance.update(dict.fromkeys(queue, 0))
    while queue:
        state = queue.popleft()
        needs = distance[state]
        assert needs is not None
        for predecessor in predecessors[state]:
            if distance[predecessor] is None:
                distance[predecessor] = needs + 1
                queue.append(predecessor)
    return distance
