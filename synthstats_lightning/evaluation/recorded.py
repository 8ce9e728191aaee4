"""A run's programs as a policy: what `programs.jsonl` holds, for instances of the same environments."""

from __future__ import annotations

from pathlib import Path

from synthstats_lightning.evaluation.entrants import Usage, WrittenProgram
from synthstats_lightning.runtime.durable_files import read_json_lines
from synthstats_lightning.tasks import Task


class RecordedWriter:
    """Writes down again what a run found: the best programs of each environment, for every instance.

    The best are those of highest log reward, each above the baseline of its own task. A run on an instance
    that is evaluated has seen its data: evaluate on others.

    Args:
        path: A file of JSON lines, each with `task`, `source` and `log_reward`, as runs write it; `log_prob`
            is taken for how probable a program is before any data. Lines without a log reward are left out.
        num_programs: Programs for each instance, at most.

    Attributes:
        usage: No tokens: nothing is read or written.
        most_tokens: No tokens either.

    Raises:
        ValueError: If `num_programs` is below 1, or the file holds no program with a score.
        FileNotFoundError: If there is no such file.
    """

    most_tokens = 0

    def __init__(self, path: Path, num_programs: int = 16) -> None:
        if num_programs < 1:
            raise ValueError(f"num_programs must be at least 1, got {num_programs}")
        if not path.is_file():
            raise FileNotFoundError(f"no programs at {path}")
        self.usage = Usage()
        self.path = path
        self.num_programs = num_programs
        self._programs = _by_environment(path)
        if not any(self._programs.values()):
            raise ValueError(f"{path} holds no program with a task, a source and a score")

    @property
    def environments(self) -> list[str]:
        """Names of the environments that there are programs for."""
        return sorted(self._programs)

    def __call__(self, task: Task, seed: int) -> list[WrittenProgram]:
        """The best programs for a task's environment.

        Args:
            task: An instance of the environment.
            seed: The instance's seed, which is not looked at.

        Raises:
            ValueError: If there are none for this environment.
        """
        found = self._programs.get(task.environment)
        if not found:
            others = ", ".join(self.environments)
            raise ValueError(f"{self.path} holds no program for {task.environment}, only for {others}")
        best = sorted(found.items(), key=lambda item: item[1], reverse=True)[: self.num_programs]
        return [WrittenProgram(source, log_prob) for source, (_, log_prob) in best]


def _by_environment(path: Path) -> dict[str, dict[str, tuple[float, float]]]:
    """Environment to source to its best log reward and its log-probability, of programs that scored."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for line in read_json_lines(path):
        if line.get("status", "scored") != "scored" or not isinstance(line.get("log_reward"), int | float):
            continue
        if not isinstance(line.get("source"), str) or not isinstance(line.get("task"), str):
            continue
        of_environment = found.setdefault(line["task"].split("/")[0], {})
        value = float(line["log_reward"]), float(line.get("log_prob") or 0.0)
        known = of_environment.get(line["source"])
        of_environment[line["source"]] = value if known is None else max(known, value)
    return found
