"""Models with a linear-Gaussian block of every kind, as graphs."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.programs.graph import Node
from synthstats_lightning.scoring.marginals.density import Density
from tests.scoring.marginals.test_density import Builder

ROWS = 12
GROUPS = 4
RNG = np.random.default_rng(20)
X = RNG.normal(size=ROWS)
Y = 0.4 + 0.8 * X + RNG.normal(size=ROWS)
GROUP = np.arange(ROWS) % GROUPS
DESIGN = RNG.normal(size=(ROWS, 7))
WIDE = RNG.normal(size=(ROWS, 20))
WEIGHTS = (np.abs(np.subtract.outer(np.arange(GROUPS), np.arange(GROUPS))) == 1).astype(float)
DATA = {"x": X, "g": GROUP.astype(np.int64)}


def _response(b: Builder, mean: int, scale: int) -> Density:
    b.random("Normal", "y", mean, scale, shape=(ROWS,))
    return b.density(DATA, Y)


def logarithmic(law: str = "LogNormal", values: np.ndarray | None = None, centre: float = 0.0) -> Density:
    """Effects of groups on the logarithm of a response, whose rows have scales of their own."""
    b = Builder()
    mu, tau = b.random("Normal", "mu", centre, 2.0), b.random("HalfNormal", "tau", 0.0, 1.0)
    effect = b.random("Normal", "effect", mu, tau, shape=(GROUPS,))
    s = b.op("mul", b.random("HalfNormal", "s", 0.0, 1.0), b.op("exp", b.op("mul", b.covariate("x"), 0.2)))
    b.random(law, "y", b.op("take", effect, b.covariate("g"), axis=0), s, shape=(ROWS,))
    return b.density(DATA, np.exp(Y) if values is None else values)


def hurdle() -> Density:
    """A third of the rows are zero, with chances of their own; the others as above, with a common scale."""
    b = Builder()
    mu, tau = b.random("Normal", "mu", 0.0, 2.0), b.random("HalfNormal", "tau", 0.0, 1.0)
    effect = b.random("Normal", "effect", mu, tau, shape=(GROUPS,))
    psi = b.random("Beta", "psi", 2.0, 2.0, shape=(GROUPS,))
    chances = b.op("take", psi, b.covariate("g"), axis=0)
    mean = b.op("take", effect, b.covariate("g"), axis=0)
    inputs = tuple(b.lift(x) for x in (chances, mean, b.random("HalfNormal", "s", 0.0, 1.0)))
    fields = {"distribution": "Hurdle", "components": ["LogNormal"], "name": "y", "shape": [ROWS]}
    b.add(Node("random", inputs, fields))
    return b.density(DATA, np.where(np.arange(ROWS) % 3 == 1, 0.0, np.exp(Y)))


def ridge(design: np.ndarray = DESIGN) -> Density:
    b = Builder()
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    beta = b.random("Normal", "beta", 0.0, tau, shape=(design.shape[1],))
    return _response(b, b.op("dot", b.constant(design.tolist()), beta), b.random("HalfNormal", "s", 0.0, 1.0))


def wide_ridge() -> Density:
    return ridge(WIDE)


def noncentred_ridge() -> Density:
    b = Builder()
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    beta = b.op("mul", tau, b.random("Normal", "z", 0.0, 1.0, shape=(DESIGN.shape[1],)))
    return _response(b, b.op("dot", b.constant(DESIGN.tolist()), beta), b.random("HalfNormal", "s", 0.0, 1.0))


def one_way(centred: bool = True) -> Density:
    b = Builder()
    mu, tau = b.random("Normal", "mu", 0.0, 2.0), b.random("HalfNormal", "tau", 0.0, 1.0)
    if centred:
        effect = b.random("Normal", "effect", mu, tau, shape=(GROUPS,))
    else:
        z = b.random("Normal", "z", 0.0, 1.0, shape=(GROUPS,))
        effect = b.op("add", mu, b.op("mul", tau, z))
    return _response(b, b.op("take", effect, b.covariate("g"), axis=0), b.random("HalfNormal", "s", 0.0, 1.0))


def noncentred_one_way() -> Density:
    return one_way(False)


def slopes() -> Density:
    """Intercepts and slopes of groups with a covariance of their own, and rows of their own scale."""
    b = Builder()
    mean = b.random("Normal", "mean", 0.0, 3.0, shape=(2,))
    a, c = b.random("HalfNormal", "a", 0.0, 1.0), b.random("HalfNormal", "c", 0.0, 1.0)
    r = b.op("mul", b.op("mul", a, c), 0.3)
    cov = b.op(
        "stack",
        b.op("stack", b.op("square", a), r, axis=0),
        b.op("stack", r, b.op("square", c), axis=0),
        axis=0,
    )
    both = b.random("MvNormal", "both", mean, cov, shape=(GROUPS, 2))
    picked = b.op("take", both, b.covariate("g"), axis=0)
    intercept = b.op("index", picked, index=[{"slice": [None, None, None]}, 0])
    slope = b.op("index", picked, index=[{"slice": [None, None, None]}, 1])
    mu = b.op("add", intercept, b.op("mul", slope, b.covariate("x")))
    s = b.random("HalfNormal", "s", 0.0, 1.0)
    return _response(b, mu, b.op("mul", s, b.op("exp", b.op("mul", b.covariate("x"), 0.2))))


def walk() -> Density:
    b = Builder()
    s = b.random("HalfNormal", "step", 0.0, 1.0)
    drift = b.random("Normal", "drift", 0.0, 1.0)
    fields = {
        "distribution": "RandomWalk",
        "components": ["Normal", "Normal"],
        "name": "level",
        "shape": [ROWS],
    }
    steps = b.op("reshape", drift, shape=[1]), b.op("reshape", s, shape=[1])
    level = b.add(Node("random", (b.lift(0.3), b.lift(2.0), *steps), fields))
    return _response(b, level, b.random("HalfNormal", "s", 0.0, 1.0))


def vector_walk(walks: bool = False) -> Density:
    """Intercept and slope that move together, for all rows or for each group of them."""
    b = Builder()
    s, drift = b.random("HalfNormal", "step", 0.0, 1.0), b.random("Normal", "drift", 0.0, 1.0, shape=(2,))
    batch, length = ([GROUPS], ROWS // GROUPS) if walks else ([], ROWS)
    own = 1.0 + 0.3 * np.arange(GROUPS)[:, None, None, None] if walks else np.ones((1, 1, 1))
    cov = b.op("mul", b.constant((own * np.array([[1.0, 0.4], [0.4, 0.7]])).tolist()), b.op("square", s))
    first = (b.constant([0.3, -0.1]), b.constant([[2.0, 0.5], [0.5, 1.0]]))
    fields = {
        "distribution": "RandomWalk",
        "components": ["MvNormal", "MvNormal"],
        "name": "both",
        "shape": [*batch, length, 2],
    }
    steps = b.op("reshape", drift, shape=[1, 2]), cov
    both = b.op("reshape", b.add(Node("random", (*first, *steps), fields)), shape=[ROWS, 2])
    intercept, slope = (b.op("index", both, index=[{"slice": [None, None, None]}, k]) for k in (0, 1))
    mean = b.op("add", intercept, b.op("mul", slope, b.covariate("x")))
    return _response(b, mean, b.random("HalfNormal", "s", 0.0, 1.0))


def vector_walks() -> Density:
    return vector_walk(True)


def autoregression(order: int = 2) -> Density:
    """A level that remembers its last values, around a constant that is in the block, too."""
    b = Builder()
    sigma, drift = b.random("HalfNormal", "step", 0.0, 1.0), b.random("Normal", "drift", 0.0, 1.0)
    start = b.random("Normal", "start", 0.0, 1.0)
    rho = b.random("Uniform", "rho", -1.0, 1.0, shape=(order,))
    fields = {"distribution": "AR", "components": ["Normal"], "name": "level", "shape": [ROWS]}
    first = b.op("broadcast_to", start, shape=[order]), b.constant([0.5] * order)
    level = b.add(Node("random", (drift, rho, sigma, *first), fields))
    return _response(b, level, b.random("HalfNormal", "s", 0.0, 1.0))


def autoregressions() -> Density:
    """One series a group, of coefficients of their own, read in another order than theirs."""
    b = Builder()
    length = ROWS // GROUPS
    sigma = b.random("HalfNormal", "step", 0.0, 1.0, shape=(GROUPS,))
    rho = b.random("Uniform", "rho", -1.0, 1.0, shape=(GROUPS, 1))
    fields = {"distribution": "AR", "components": ["Normal"], "name": "levels", "shape": [GROUPS, length]}
    first = b.constant([[0.2]] * GROUPS), b.constant([1.5])
    levels = b.add(Node("random", (b.constant([0.1] * GROUPS), rho, sigma, *first), fields))
    mean = b.op("reshape", b.op("transpose", levels, order=[1, 0]), shape=[ROWS])
    return _response(b, mean, b.random("HalfNormal", "s", 0.0, 1.0))


def neighbours(intrinsic: bool = False) -> Density:
    b = Builder()
    weights, tau = b.constant(WEIGHTS.tolist()), b.random("HalfNormal", "tau", 0.0, 2.0)
    mu = b.random("Normal", "mu", 0.0, 2.0)
    if intrinsic:
        field = b.random("ICAR", "field", weights, tau, 0.01, shape=(GROUPS,))
        mean = b.op("add", mu, b.op("take", field, b.covariate("g"), axis=0))
    else:
        alpha = b.random("Uniform", "alpha", -1.0, 1.0)
        around = b.op("broadcast_to", mu, shape=[GROUPS])
        field = b.random("CAR", "field", around, weights, alpha, tau, shape=(GROUPS,))
        mean = b.op("take", field, b.covariate("g"), axis=0)
    return _response(b, mean, b.random("HalfNormal", "s", 0.0, 1.0))


def intrinsic_neighbours() -> Density:
    return neighbours(True)


def factor() -> Density:
    """Scores times loadings: the loadings, which are fewer, stay outside of the block."""
    b = Builder()
    loading = b.random("Normal", "loading", 0.0, 1.0, shape=(3,))
    score = b.random("Normal", "score", 0.0, 1.0, shape=(GROUPS,))
    item = b.constant((np.arange(ROWS) // GROUPS).tolist(), "int64")
    mean = b.op("mul", b.op("take", loading, item, axis=0), b.op("take", score, b.covariate("g"), axis=0))
    return _response(b, mean, b.random("HalfNormal", "s", 0.0, 1.0))


def chain() -> Density:
    """A random walk written out: each scalar is the mean of the next."""
    b = Builder()
    step = b.random("HalfNormal", "step", 0.0, 1.0)
    levels = [b.random("Normal", "level0", 0.0, 1.0)]
    levels += [b.random("Normal", f"level{t}", levels[-1], step) for t in range(1, ROWS)]
    return _response(b, b.op("stack", *levels, axis=0), 0.7)


def process() -> Density:
    """A Gaussian process at the rows, with a length scale."""
    b = Builder()
    length = b.random("LogNormal", "length", 0.0, 0.5)
    apart = b.constant((np.subtract.outer(X, X) ** 2).tolist())
    kernel = b.op("exp", b.op("neg", b.op("div", apart, b.op("square", length))))
    cov = b.op("add", kernel, b.constant((1e-6 * np.eye(ROWS)).tolist()))
    f = b.random("MvNormal", "f", b.constant([0.0] * ROWS), cov, shape=(ROWS,))
    return _response(b, f, b.random("HalfNormal", "s", 0.0, 1.0))


def noncentred_process() -> Density:
    """The same by a factor of its kernel, times a column of weights."""
    b = Builder()
    length = b.random("LogNormal", "length", 0.0, 0.5)
    apart = b.constant((np.subtract.outer(X, X) ** 2).tolist())
    kernel = b.op("exp", b.op("neg", b.op("div", apart, b.op("square", length))))
    factor = b.op("cholesky", b.op("add", kernel, b.constant((1e-6 * np.eye(ROWS)).tolist())))
    z = b.random("Normal", "z", b.constant([0.0] * ROWS), b.constant([1.0] * ROWS), shape=(ROWS,))
    column = b.op("dot", factor, b.op("transpose", z, order=[0, "x"]))
    f = b.op("transpose", column, order=[0])
    return _response(b, f, b.random("HalfNormal", "s", 0.0, 1.0))


MODELS = (
    ridge,
    wide_ridge,
    noncentred_ridge,
    one_way,
    noncentred_one_way,
    logarithmic,
    hurdle,
    slopes,
    walk,
    vector_walk,
    vector_walks,
    autoregression,
    autoregressions,
    neighbours,
    intrinsic_neighbours,
    factor,
    chain,
    process,
    noncentred_process,
)
