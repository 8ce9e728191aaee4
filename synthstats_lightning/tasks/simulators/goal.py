"""What is asked about an environment: predictions, or a parameter that a program declares by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray

Truth = Callable[[Mapping[str, Array]], Array]


@dataclass(frozen=True)
class Goal:
    """A question about an environment, and how an answer is judged.

    Attributes:
        name: `"prediction"`, or what the parameter goal is called.
        question: The question in words of the domain.
        plain_question: The question without domain knowledge.
        errors: From prediction and truth (the same trailing `shape`, any common leading axes) to the error of
            each leading element. For the goal `"prediction"` both have shape `(rows,)`, and so has the error.
        quantity: Name of the `pm.Deterministic` that a program must declare; empty for `"prediction"`.
        shape: Shape of that quantity.
        truth: From latents with a leading axis `size` to the true quantity `[size, *shape]`; `None` for
            `"prediction"`, whose truth is the response.
        summarise: From posterior draws `[draws, *shape]` and weights `[draws]` (summing to one) to a point
            prediction of shape `shape`.
    """

    name: str
    question: str
    plain_question: str
    errors: Callable[[ArrayLike, ArrayLike], FloatArray]
    quantity: str = ""
    shape: tuple[int, ...] = ()
    truth: Truth | None = None
    summarise: Callable[[Array, FloatArray], Array] | None = None

    @property
    def request(self) -> str:
        """The sentence of a prompt that asks for the quantity; empty for `"prediction"`."""
        if not self.quantity:
            return ""
        shape = f" of shape {self.shape}" if self.shape else ""
        return f'Declare the answer as pm.Deterministic("{self.quantity}", ...){shape}.'

    def truth_of(self, latents: Mapping[str, Array]) -> Array:
        """The true quantity of latents with a leading axis `size`: `[size, *shape]`.

        Raises:
            TypeError: For the goal `"prediction"`, whose truth is the response.
        """
        if self.truth is None:
            raise TypeError(f"the truth of the goal {self.name!r} is the response, not a quantity")
        return self.truth(latents)


def parameter_goal(
    name: str, quantity: str, question: str, plain_question: str, truth: Truth, shape: tuple[int, ...] = ()
) -> Goal:
    """A goal about a number or an array of numbers: mean squared error, answered by the posterior mean.

    Args:
        name: What the goal is called.
        quantity: Name of the `pm.Deterministic`.
        question: The question in words of the domain.
        plain_question: The question without domain knowledge.
        truth: From latents `[size, ...]` to the quantity `[size, *shape]`.
        shape: Shape of the quantity.
    """

    def errors(prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
        return squared_errors(prediction, truth, len(shape))

    return Goal(name, question, plain_question, errors, quantity, shape, truth, weighted_mean)


def index_goal(name: str, quantity: str, question: str, plain_question: str, truth: Truth) -> Goal:
    """A goal about which of several things: wrong or right, answered by the most probable index.

    Args:
        name: What the goal is called.
        quantity: Name of the `pm.Deterministic`, a whole number from 0.
        question: The question in words of the domain.
        plain_question: The question without domain knowledge.
        truth: From latents `[size, ...]` to the index `[size]`.
    """
    return Goal(name, question, plain_question, index_errors, quantity, (), truth, weighted_mode)


def squared_errors(prediction: ArrayLike, truth: ArrayLike, trailing: int = 0) -> FloatArray:
    """Squared error, averaged over the last `trailing` axes."""
    squared = (np.asarray(prediction, dtype=np.float64) - np.asarray(truth, dtype=np.float64)) ** 2
    return np.asarray(squared.mean(axis=tuple(range(-trailing, 0)))) if trailing else np.asarray(squared)


def index_errors(prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
    """One where the index, rounded to a whole number, is another one, else zero."""
    wrong = np.rint(np.asarray(prediction, dtype=np.float64)) != np.asarray(truth)
    return np.asarray(wrong, dtype=np.float64)


def weighted_mean(draws: Array, weights: FloatArray) -> Array:
    """Posterior mean of draws `[draws, *shape]` under weights `[draws]`."""
    return np.asarray(np.tensordot(weights, np.asarray(draws, dtype=np.float64), axes=1))


def weighted_mode(draws: Array, weights: FloatArray) -> Array:
    """The whole number of largest posterior weight among draws `[draws]`, the smallest one at a tie."""
    values, inverse = np.unique(
        np.rint(np.asarray(draws, dtype=np.float64)).astype(np.int64), return_inverse=True
    )
    return np.asarray(values[np.argmax(np.bincount(inverse, weights=weights))])


def prediction_goal(
    question: str, plain_question: str, errors: Callable[[ArrayLike, ArrayLike], FloatArray]
) -> Goal:
    """The goal of predicting the response at new designs.

    Args:
        question: The question in words of the domain.
        plain_question: The question without domain knowledge.
        errors: From predictions and responses `[rows]` to errors `[rows]`.
    """
    return Goal("prediction", question, plain_question, errors)
