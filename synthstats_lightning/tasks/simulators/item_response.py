"""Students who answer questions: item response theory with one, two or three parameters an item."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import numpy as np
from scipy.special import expit

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, gather
from synthstats_lightning.tasks.simulators.balanced import UnbalancedError
from synthstats_lightning.tasks.simulators.base import Variant
from synthstats_lightning.tasks.simulators.binary import BinarySimulator
from synthstats_lightning.tasks.simulators.design import Design, DesignError, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, index_goal

Mode = Literal["1pl", "2pl", "3pl"]
"""Parameters of an item: difficulty; and discrimination; and the chance of a right guess."""


class ItemResponseSimulator(BinarySimulator):
    """Whether a student answers a question correctly.

    Latents: `ability[student] ~ N(0, 1)`, `difficulty[question] ~ N(0, 1)`, from two parameters on
    `discrimination[question] ~ N(0, 1)` (of either sign), with three `guessing[question] ~ U(0, 1)`. The
    answer is right with probability `guessing + (1 - guessing) * logistic(discrimination * (ability -
    difficulty))`. An instance also draws one table `responses[student, question]`: an answer asked for
    again is the same one. Evaluation points are cells of that table which cannot be observed.

    `boxing_gym`: half the evaluation cells are right and half wrong answers, drawn with replacement, and the
    goals' truths are those of the table (row sums, column sums, column spreads). `corrected`: cells are
    different and drawn as they come (with `balanced: true` half and half, as far as there are enough), and
    the goals' truths are the latents that they ask for.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        mode: Parameters of an item.
        balanced: Whether evaluation points hold as many ones as zeros; by default as the variant says.
        num_students: Students, numbered from 0.
        num_questions: Questions, numbered from 0.
        num_evaluation: Cells of the table that are kept for evaluation.

    Raises:
        ValueError: If `mode` is unknown, or the table has no cell left to observe.
    """

    name: ClassVar[str] = "item_response"
    description = "Whether students answered questions correctly; each student meets each question once."
    plain_description = "A binary response that depends on two numbers that name things, counted from 0."
    question: ClassVar[str] = "Which students answer which questions correctly?"
    columns = ("student", "question", "correct")
    repeatable: ClassVar[bool] = False

    def __init__(
        self,
        variant: Variant = "corrected",
        mode: Mode = "2pl",
        balanced: bool | None = None,
        num_students: int = 6,
        num_questions: int = 6,
        num_evaluation: int = 10,
    ) -> None:
        super().__init__(variant, balanced)
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}")
        if not 0 <= num_evaluation < num_students * num_questions:
            raise ValueError(
                f"num_evaluation must be from 0 to {num_students * num_questions - 1}, so that cells of the"
                f" {num_students} by {num_questions} table are left to observe, got {num_evaluation}"
            )
        self.mode = mode
        self.num_students, self.num_questions = num_students, num_questions
        self.num_evaluation = num_evaluation
        self.units = {}
        self.fields = (
            DesignField("student", "integer", 0.0, float(num_students - 1)),
            DesignField("question", "integer", 0.0, float(num_questions - 1)),
        )
        self._kept: list[tuple[int, int]] = []

    @property
    def reference(self) -> str:
        """See `Simulator.reference`."""
        return self.name if self.mode == "2pl" else f"{self.name}_{self.mode}"

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`; `responses` is `[size, students, questions]`."""
        latents: dict[str, Array] = {
            "ability": rng.standard_normal((size, self.num_students)),
            "difficulty": rng.standard_normal((size, self.num_questions)),
        }
        if self.mode != "1pl":
            latents["discrimination"] = rng.standard_normal((size, self.num_questions))
        if self.mode == "3pl":
            latents["guessing"] = rng.uniform(0.0, 1.0, (size, self.num_questions))
        cells = self.simulate(latents, self._cells(), rng)
        latents["responses"] = cells.reshape(size, self.num_students, self.num_questions)
        return latents

    def _cells(self) -> dict[str, Array]:
        student, question = np.divmod(np.arange(self.num_students * self.num_questions), self.num_questions)
        return {"student": student, "question": question}

    def start(self, rng: np.random.Generator) -> None:
        """Chooses the evaluation cells of the instance.

        Raises:
            UnbalancedError: In the variant `boxing_gym`, if all answers of the table are the same.
        """
        order = rng.permutation(self.num_students * self.num_questions)
        if self.balanced:
            order = self._balanced_order(order, rng)
        cells = self._cells()
        kept = order[: self.num_evaluation]
        self._kept = list(zip(cells["student"][kept].tolist(), cells["question"][kept].tolist(), strict=True))

    def _balanced_order(self, order: Array, rng: np.random.Generator) -> Array:
        answers = self.latents["responses"].reshape(-1)[order]
        right, wrong = order[answers == 1], order[answers == 0]
        half = self.num_evaluation // 2
        if self.variant == "boxing_gym":
            if len(right) == 0 or len(wrong) == 0:
                raise UnbalancedError(
                    f"balanced evaluation needs right and wrong answers, but all {len(order)} answers of the"
                    f" instance with seed {self.seed} are {int(answers[0])}; give balanced=False"
                )
            rest = self.num_evaluation - half
            return np.concatenate([rng.choice(right, rest), rng.choice(wrong, half)])
        first = np.concatenate([right[: self.num_evaluation - half], wrong[:half]])
        return np.concatenate([first, order[~np.isin(order, first)]])

    def check(self, design: Design) -> Design:
        """Evaluation cells cannot be observed.

        Raises:
            DesignError: If the design is one of them.
        """
        if (design["student"], design["question"]) in self._kept:
            raise DesignError(
                f"student {design['student']} with question {design['question']} is kept for evaluation;"
                " choose another pair"
            )
        return design

    def random_design(self, rng: np.random.Generator) -> Design:
        """A random cell that is not kept for evaluation."""
        designs = self.all_designs()
        return designs[int(rng.integers(len(designs)))]

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {"student": np.array([design["student"]]), "question": np.array([design["question"]])}

    def respond(self, design: Design, covariates: dict[str, Array], rng: np.random.Generator) -> Array:
        """The answer in the instance's table."""
        answers: Array = self.latents["responses"][covariates["student"], covariates["question"]]
        return answers

    def probability(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `BinarySimulator.probability`."""
        question = covariates["question"]
        margin = gather(latents["ability"], covariates["student"]) - gather(latents["difficulty"], question)
        if "discrimination" in latents:
            margin = margin * gather(latents["discrimination"], question)
        right: FloatArray = expit(margin)
        if "guessing" in latents:
            guessing = gather(latents["guessing"], question)
            right = guessing + (1.0 - guessing) * right
        return right

    def evaluation_covariates(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """Random cells of a new instance."""
        return {
            "student": rng.integers(0, self.num_students, n),
            "question": rng.integers(0, self.num_questions, n),
        }

    def evaluation_points(self, n: int) -> dict[str, Array]:
        """The first `n` cells that are kept for evaluation.

        Raises:
            ValueError: If `n` is below 1 or there are fewer such cells.
        """
        if not 1 <= n <= len(self._kept):
            raise ValueError(
                f"{self.name} keeps {len(self._kept)} cells for evaluation (num_evaluation), not {n}"
            )
        student, question = np.array(self._kept[:n]).T
        return {
            "student": student,
            "question": question,
            "correct": self.latents["responses"][student, question],
        }

    def parameter_goals(self) -> list[Goal]:
        """The best student, the most difficult question, and with discriminations the most discriminating."""
        table = self.variant == "boxing_gym"

        def best(latents: Latents) -> Array:
            return np.asarray(np.argmax(latents["responses"].sum(2) if table else latents["ability"], axis=1))

        def difficult(latents: Latents) -> Array:
            difficulty = -latents["responses"].sum(1) if table else latents["difficulty"]
            return np.asarray(np.argmax(difficulty, axis=1))

        def discriminating(latents: Latents) -> Array:
            # a question that the better students fail tells them apart as well
            spread = latents["responses"].std(1) if table else np.abs(latents["discrimination"])
            return np.asarray(np.argmax(spread, axis=1))

        goals = [
            index_goal(
                "best_student",
                "best_student",
                "Which student has the highest ability?",
                "Which value of the first input goes with the largest responses?",
                best,
            ),
            index_goal(
                "difficult_question",
                "difficult_question",
                "Which question is the most difficult?",
                "Which value of the second input goes with the smallest responses?",
                difficult,
            ),
        ]
        if self.mode == "1pl" and not table:
            return goals
        return [
            *goals,
            index_goal(
                "discriminating_question",
                "discriminating_question",
                "Which question discriminates most between students of different ability?",
                "For which value of the second input does the response depend most on the first?",
                discriminating,
            ),
        ]
