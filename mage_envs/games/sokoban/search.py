"""Exact search, backwards from the solved board: the number of moves that every position still needs.

One breadth-first search by reversed moves (walks and pulls), from all positions with every box on a target. A
set of positions is a table from boxes to the player's cells, both bit masks, so that a level of the search treats
all player cells of one placement of boxes at once. The search goes only as deep as was asked for so far.
"""

from __future__ import annotations

from typing import Any

from mage_envs.games.sokoban.level import offsets, step

LIMIT = 50_000
"""Entries of the table after which questions about farther positions stay unanswered (about 0.2 s)."""


class _Placement:
    """What the search knows of one placement of the boxes."""

    def __init__(self, boxes: int, floor: int, width: int) -> None:
        free = floor ^ boxes
        self.unseen = free
        """Player cells not yet reached."""
        up = boxes >> width & free << width & free
        down = boxes << width & free >> width & free
        left = boxes >> 1 & free << 1 & free
        right = boxes << 1 & free >> 1 & free
        self.up_down_left_right = (up, down, left, right)
        """Player cells from which a step that way pulls a box along."""
        self.pulls = up | down | left | right


class Retrograde:
    """The table of one board: distances in moves, to be read as an oracle."""

    def __init__(self, floor: int, targets: int, width: int) -> None:
        self.floor = floor
        self.targets = targets
        self.width = width
        solved = _Placement(targets, floor, width)
        self.levels: list[dict[int, int]] = [{targets: solved.unseen}]
        """Index: moves needed. Boxes to the player cells from which exactly so many are."""
        self.complete = False
        """Whether every solvable position is in the table."""
        self._entries = 0
        self._placements = {targets: solved}
        self._known: dict[tuple[int, int], int] = {}
        solved.unseen = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """How far the search went, not the table: a copy searches as far again."""
        return _searched, (self.floor, self.targets, self.width, len(self.levels) - 1, self.complete)

    def deepen(self) -> bool:
        """Adds one level; False when there is none."""
        width, floor, placements = self.width, self.floor, self._placements
        level: dict[int, int] = {}
        for boxes, found in self.levels[-1].items():
            placement = placements[boxes]
            if placement.unseen:
                new = (found << 1 | found >> 1 | found << width | found >> width) & placement.unseen
                if new:
                    placement.unseen ^= new
                    level[boxes] = level.get(boxes, 0) | new
            if not found & placement.pulls:
                continue
            for offset, from_here in zip((-width, width, -1, 1), placement.up_down_left_right):
                pulling = found & from_here
                while pulling:
                    cell = pulling & -pulling
                    pulling ^= cell
                    if offset > 0:
                        before, player = boxes ^ cell ^ (cell >> offset), cell << offset
                    else:
                        before, player = boxes ^ cell ^ (cell << -offset), cell >> -offset
                    other = placements.get(before)
                    if other is None:
                        other = placements[before] = _Placement(before, floor, width)
                    if other.unseen & player:
                        other.unseen ^= player
                        level[before] = level.get(before, 0) | player
        if not level:
            self.complete = True
            return False
        self.levels.append(level)
        self._entries += len(level)
        return True

    def at(self, moves: int) -> dict[int, int]:
        """Boxes to player cells of all positions that need exactly `moves`; empty where there is none."""
        while len(self.levels) <= moves:
            if self.complete or not self.deepen():
                return {}
        return self.levels[moves]

    def distance(self, boxes: int, player: int, limit: int = LIMIT) -> int | None:
        """Moves to the solved board. None: it is out of reach, or, unless `complete`, farther than `limit` shows."""
        known = self._known.get((boxes, player))
        if known is not None:
            return known
        placements = self._placements
        while (placement := placements.get(boxes)) is None or placement.unseen & player:
            if self.complete or self._entries >= limit or not self.deepen():
                return None
        for moves, level in enumerate(self.levels):
            if level.get(boxes, 0) & player:
                self._known[boxes, player] = moves
                return moves
        return None

    def path(self, boxes: int, player: int, limit: int = LIMIT) -> list[int] | None:
        """A shortest solution as indices into `MOVES`, by descent, None where `distance` is None."""
        left = self.distance(boxes, player, limit)
        if left is None:
            return None
        moves = []
        for distance in range(left - 1, -1, -1):
            for move, offset in enumerate(offsets(self.width)):
                after = step(self.floor, boxes, player, offset)
                if self.distance(*after) == distance:
                    moves.append(move)
                    boxes, player = after
                    break
        return moves


def _searched(floor: int, targets: int, width: int, moves: int, complete: bool) -> Retrograde:
    search = Retrograde(floor, targets, width)
    search.at(moves)
    if complete:
        search.deepen()
    return search
