from __future__ import annotations

import random
from functools import cache

import pytest

from synthstats_lightning.programs.edit_distance import Tree, edit_distance, normalised_edit_distance


def tree(text: str) -> Tree:
    """`"f(d(a, b), e)"` as a tree."""
    text = text.replace(" ", "")
    position = 0

    def read() -> Tree:
        nonlocal position
        start = position
        while position < len(text) and text[position] not in "(),":
            position += 1
        label, children = text[start:position], []
        if position < len(text) and text[position] == "(":
            while text[position] != ")":
                position += 1
                children.append(read())
            position += 1
        return Tree(label, tuple(children))

    return read()


def brute_force(first: Tree, second: Tree) -> int:
    """The textbook recursion over forests, without any of the algorithm's economies."""

    def count(forest: tuple[Tree, ...]) -> int:
        return sum(1 + count(node.children) for node in forest)

    @cache
    def between(a: tuple[Tree, ...], b: tuple[Tree, ...]) -> int:
        if not a or not b:
            return count(a) + count(b)
        *rest_a, last_a = a
        *rest_b, last_b = b
        return min(
            between((*rest_a, *last_a.children), b) + 1,
            between(a, (*rest_b, *last_b.children)) + 1,
            between(tuple(rest_a), tuple(rest_b))
            + between(last_a.children, last_b.children)
            + (last_a.label != last_b.label),
        )

    return between((first,), (second,))


def random_tree(rng: random.Random, nodes: int) -> Tree:
    children = []
    left = nodes - 1
    while left > 0:
        size = rng.randint(1, left)
        children.append(random_tree(rng, size))
        left -= size
    return Tree(rng.choice("abc"), tuple(children))


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("a", "a", 0),
        ("a", "b", 1),
        ("f(d(a,c(b)),e)", "f(c(d(a,b)),e)", 2),  # the example of Zhang and Shasha
        ("a(b,c)", "a(c,b)", 2),
        ("a(b(c))", "a(c)", 1),
        ("a", "a(b,c(d,e))", 4),
    ],
)
def test_known_distances(first, second, distance):
    assert edit_distance(tree(first), tree(second)) == distance
    assert edit_distance(tree(second), tree(first)) == distance


def test_equals_brute_force():
    rng = random.Random(0)
    for _ in range(300):
        first, second = random_tree(rng, rng.randint(1, 8)), random_tree(rng, rng.randint(1, 8))
        assert edit_distance(first, second) == brute_force(first, second)


def test_is_a_metric_also_normalised():
    rng = random.Random(1)
    for _ in range(200):
        a, b, c = (random_tree(rng, rng.randint(1, 12)) for _ in range(3))
        for measure in (edit_distance, normalised_edit_distance):
            assert measure(a, b) == measure(b, a)
            assert (measure(a, b) == 0) == (a == b)
            assert measure(a, c) <= measure(a, b) + measure(b, c) + 1e-12
        assert 0 <= normalised_edit_distance(a, b) <= 1


def test_deep_trees_need_no_recursion():
    deep = Tree("a")
    for _ in range(3000):
        deep = Tree("a", (deep,))
    assert deep.size == 3001
    assert edit_distance(deep, Tree("a")) == 3000
