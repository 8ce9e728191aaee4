"""Edit distance between ordered labelled trees.

Zhang and Shasha (1989), "Simple fast algorithms for the editing distance between trees and related problems",
SIAM Journal on Computing 18(6), with unit costs: the fewest deletions, insertions and changes of label that
make one tree the other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """An ordered tree.

    Attributes:
        label: What the root is.
        children: The subtrees below the root, in order.
    """

    label: str
    children: tuple[Tree, ...] = ()

    @property
    def size(self) -> int:
        """Nodes of the tree."""
        return len(_PostOrder(self).labels)


def edit_distance(first: Tree, second: Tree) -> int:
    """The fewest edits of one node that make one tree the other.

    It is a metric. The work grows as the product of the sizes times that of the depths.

    Args:
        first: One of the two trees.
        second: The other of the two.
    """
    a, b = _PostOrder(first), _PostOrder(second)
    distances = [[0] * len(b.labels) for _ in a.labels]
    for i in a.key_roots:
        for j in b.key_roots:
            _fill(a, b, i, j, distances)
    return distances[-1][-1]


def normalised_edit_distance(first: Tree, second: Tree) -> float:
    """The edit distance on a scale from 0 (equal) to 1 (nothing in common), still a metric.

    With sizes m and n and distance d it is 2d / (m + n + d) (Li and Bo 2007, "A normalized Levenshtein
    distance metric", IEEE PAMI 29(6), equation 7, for unit costs).

    Args:
        first: One of the two trees.
        second: The other of the two.
    """
    distance = edit_distance(first, second)
    return 2.0 * distance / (first.size + second.size + distance)


class _PostOrder:
    """A tree as arrays, children before parents.

    Attributes:
        labels: The labels of the nodes.
        leftmost: The leftmost leaf below each node.
        key_roots: The last node with each leftmost leaf: the roots of the forests that the recursion needs.
    """

    def __init__(self, tree: Tree) -> None:
        self.labels: list[str] = []
        self.leftmost: list[int] = []
        stack: list[tuple[Tree, int, bool]] = [(tree, 0, False)]
        while stack:
            node, first, visited = stack.pop()
            if visited:
                self.labels.append(node.label)
                self.leftmost.append(first)
                continue
            # the first of its nodes to be written is the one after all that are written now
            stack.append((node, len(self.labels), True))
            stack.extend((child, 0, False) for child in reversed(node.children))
        last = {leaf: index for index, leaf in enumerate(self.leftmost)}
        self.key_roots = sorted(last.values())


def _fill(a: _PostOrder, b: _PostOrder, i: int, j: int, distances: list[list[int]]) -> None:
    """Distances of all pairs of subtrees whose leftmost leaves are those of `i` and `j`."""
    first, second = a.leftmost[i], b.leftmost[j]
    rows, columns = i - first + 2, j - second + 2
    forest = [[0] * columns for _ in range(rows)]
    for x in range(1, rows):
        forest[x][0] = x
    forest[0] = list(range(columns))
    for x in range(1, rows):
        node = first + x - 1
        whole = a.leftmost[node] == first
        above, current = forest[x - 1], forest[x]
        for y in range(1, columns):
            other = second + y - 1
            best = min(above[y], current[y - 1]) + 1
            if whole and b.leftmost[other] == second:
                changed = above[y - 1] + (a.labels[node] != b.labels[other])
                current[y] = distances[node][other] = min(best, changed)
            else:
                before = forest[a.leftmost[node] - first][b.leftmost[other] - second]
                current[y] = min(best, before + distances[node][other])
