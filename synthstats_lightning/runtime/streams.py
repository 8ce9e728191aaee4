"""Numbers of a run's random streams: which part of a run draws from which."""

from __future__ import annotations

from enum import Enum, unique


@unique
class Stream(Enum):
    """Ranges of stream numbers, each of one part of a run: no part changes what another draws.

    A stream's seed is made of the run's seed, the rank and the stream's number; see
    `policy.sampling.stream_seed`. The value of a member is the first number of its range and the length of
    the range.
    """

    TRAINING = 0, 2**40
    """Sampling rounds of training, counted from the start of the run."""
    EVALUATION = 2**40, 2**40
    """Batches of validation and test, the same programs every time."""
    PREDICTION = 2**41, 2**40
    """Batches of prediction."""
    REPORT = 2**42, 2**40
    """Fresh programs of the closing report."""
    BENCHMARKS = 2**43, 2**40
    """Fresh programs of the scripts under `benchmarks`."""
    PREFIX_RESAMPLING = 2**44, 2**40
    """Draws of prefixes and their new suffixes, by sampling round."""
    TRAINING_METRICS = 2**45, 2**40
    """Fresh programs of `TrainingMetrics`, by training step."""
    ALLOCATION = 2**46, 2**40
    """Numbers of programs that tasks of unequal weights get, by sampling round."""
    UNSEEN_TASKS = 2**47, 2**40
    """Fresh programs of `UnseenTasks`, by training step."""
    ENTRANTS = 2**48, 2**48
    """Programs of a policy in BoxingGym's protocol, by the seed of the instance."""
    INFORMATION_GAIN = 2**49, 2**48
    """Candidates and simulated responses of expected information gains, by the seed of the instance."""
    PREFLIGHT = 2**50, 2**40
    """Programs of the reference policy that `check` has scored."""
    SEARCH = 2**51, 2**50
    """Programs and suffixes of `search`, by task and call."""
    PRIOR_OF_REPORT = 2**52, 2**40
    """Programs of the reference policy among the fresh ones of the closing report."""

    @property
    def base(self) -> int:
        """The first number of the range."""
        return self.value[0]

    @property
    def width(self) -> int:
        """How many numbers the range holds."""
        return self.value[1]

    def holds(self, number: int) -> bool:
        """Whether a stream is one of the range.

        Args:
            number: The stream's number.
        """
        return self.base <= number < self.base + self.width

    def at(self, offset: int = 0) -> int:
        """A stream's number.

        Args:
            offset: Which of the part's streams, such as a step, a round or a seed.

        Raises:
            ValueError: If the range does not hold it.
        """
        if not 0 <= offset < self.width:
            raise ValueError(f"offset of stream {self.name} must be from 0 to {self.width - 1}, got {offset}")
        return self.base + offset
