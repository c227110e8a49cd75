"""Exact search backwards from the solved board: the number of moves that every position still needs.

This is one breadth-first search by reversed moves (walks and pulls). It starts from all positions with every box on a
target. A set of positions maps the boxes to the player's cells, both as bit masks. So one step treats all player cells
of a placement of boxes at once. The search goes only as deep as its callers require.
"""

from __future__ import annotations

from typing import Any

from mage_envs.games.sokoban.level import offsets, step

LIMIT = 50_000
"""Maximum entries of the table (about 0.2 s). Beyond it, the distances of farther positions stay unknown."""


class _Placement:
    """The state of the search for one placement of the boxes."""

    def __init__(self, boxes: int, floor: int, width: int) -> None:
        free = floor ^ boxes
        self.unseen = free
        """Player cells that the search has not reached."""
        # A step up from a cell pulls the box below it, if the cell above is free. Shifts bind more tightly than `&`.
        up_pulls = boxes >> width & free << width & free
        down_pulls = boxes << width & free >> width & free
        left_pulls = boxes >> 1 & free << 1 & free
        right_pulls = boxes << 1 & free >> 1 & free
        self.up_down_left_right = (up_pulls, down_pulls, left_pulls, right_pulls)
        """Per direction, the player cells from which a step pulls a box along."""
        self.pulls = up_pulls | down_pulls | left_pulls | right_pulls


class Retrograde:
    """The table of distances in moves for one board. It is the oracle of its rooms."""

    def __init__(self, floor: int, targets: int, width: int) -> None:
        """Start the table with the solved positions.

        Args:
            floor: Mask of the cells that are not walls.
            width: Cells per row.
        """
        self.floor = floor
        self.targets = targets
        self.width = width
        solved = _Placement(targets, floor, width)
        self.levels: list[dict[int, int]] = [{targets: solved.unseen}]
        """Index: moves needed. Value: boxes to the player cells of all positions that need exactly that many moves."""
        self.complete = False
        """True if every solvable position is in the table."""
        self.entries = 0
        """Entries of the table."""
        self._placements = {targets: solved}
        self._known: dict[tuple[int, int], int] = {}
        # All player cells of the solved board are level 0, so none of them may be found again.
        solved.unseen = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the depth of the search, not the table. The copy searches again to the same depth."""
        return _run_search, (self.floor, self.targets, self.width, len(self.levels) - 1, self.complete)

    def deepen(self) -> bool:
        """Add one level. Return False if no further position exists."""
        width, floor, placements = self.width, self.floor, self._placements
        level: dict[int, int] = {}
        for boxes, cells in self.levels[-1].items():
            placement = placements[boxes]
            if placement.unseen:
                # All walks at once: the neighbours of these cells, without walls and boxes.
                new = (cells << 1 | cells >> 1 | cells << width | cells >> width) & placement.unseen
                if new:
                    placement.unseen ^= new
                    level[boxes] = level.get(boxes, 0) | new
            if not cells & placement.pulls:
                continue
            for offset, from_here in zip((-width, width, -1, 1), placement.up_down_left_right):
                pulling = cells & from_here
                while pulling:
                    cell = pulling & -pulling
                    pulling ^= cell
                    # Reversed push: the player steps by `offset`, and the box behind it follows to the old cell.
                    if offset > 0:
                        previous_boxes, player = boxes ^ cell ^ (cell >> offset), cell << offset
                    else:
                        previous_boxes, player = boxes ^ cell ^ (cell << -offset), cell >> -offset
                    previous_placement = placements.get(previous_boxes)
                    if previous_placement is None:
                        previous_placement = placements[previous_boxes] = _Placement(previous_boxes, floor, width)
                    if previous_placement.unseen & player:
                        previous_placement.unseen ^= player
                        level[previous_boxes] = level.get(previous_boxes, 0) | player
        if not level:
            self.complete = True
            return False
        self.levels.append(level)
        self.entries += len(level)
        return True

    def at(self, moves: int) -> dict[int, int]:
        """Return boxes to player cells of all positions that need exactly `moves`. Empty if there are none."""
        while len(self.levels) <= moves:
            if self.complete or not self.deepen():
                return {}
        return self.levels[moves]

    def distance(self, boxes: int, player: int, limit: int = LIMIT) -> int | None:
        """Return the moves to the solved board, or None.

        None means that the board cannot be solved if `complete` is True. Otherwise the search stopped at its limit.

        Args:
            player: Mask of the player's cell.
            limit: Maximum entries of the table before the search stops.
        """
        known_distance = self._known.get((boxes, player))
        if known_distance is not None:
            return known_distance
        placements = self._placements
        # A position is in the table once its placement is known and its player cell is no longer unseen.
        while (placement := placements.get(boxes)) is None or placement.unseen & player:
            if self.complete or self.entries >= limit or not self.deepen():
                return None
        for moves, level in enumerate(self.levels):
            if level.get(boxes, 0) & player:
                self._known[boxes, player] = moves
                return moves
        return None

    def path(self, boxes: int, player: int, limit: int = LIMIT) -> list[int] | None:
        """Return a shortest solution as indices into `MOVES`, or None if `distance` is None.

        Args:
            player: Mask of the player's cell.
            limit: Maximum entries of the table before the search stops.
        """
        total = self.distance(boxes, player, limit)
        if total is None:
            return None
        moves = []
        # On a shortest path, each move reduces the distance by exactly 1.
        for distance in range(total - 1, -1, -1):
            for move, offset in enumerate(offsets(self.width)):
                next_position = step(self.floor, boxes, player, offset)
                if self.distance(*next_position) == distance:
                    moves.append(move)
                    boxes, player = next_position
                    break
        return moves


def _run_search(floor: int, targets: int, width: int, moves: int, complete: bool) -> Retrograde:
    search = Retrograde(floor, targets, width)
    search.at(moves)
    if complete:
        search.deepen()
    return search
