"""What the server counts, as text that Prometheus reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the latencies' classes, in seconds."""
PREFIX = "synthstats"
Reading = tuple[str, int | float]
"""Help text and value of a series without labels."""
OTHER = "other"
"""The path of requests for what there is not: clients must not make up names of series."""


class Histogram:
    """Counts of latencies by class.

    Attributes:
        counts: Latencies in each class, those above the last bound at the end.
        total: Sum of all latencies, in seconds.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Counts one latency.

        Args:
            seconds: Seconds from the request to its answer.
        """
        self.counts[sum(seconds > bound for bound in BOUNDS)] += 1
        self.total += seconds


class ServerMetrics:
    """Requests, latencies, and failures of programs and of requests; used in one event loop.

    Args:
        paths: The paths that there are; all others count as one.
    """

    def __init__(self, paths: frozenset[str]) -> None:
        self._paths = paths
        self._requests: Counter[tuple[str, int]] = Counter()
        self._latencies: dict[str, Histogram] = {}
        self._failures: Counter[str] = Counter()

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Counts a request.

        Args:
            path: What was asked for.
            status: Status of the answer.
            seconds: Seconds from the request to its answer.
        """
        path = path if path in self._paths else OTHER
        self._requests[path, status] += 1
        self._latencies.setdefault(path, Histogram()).add(seconds)

    def failed(self, category: str) -> None:
        """Counts a program without a score, or a request that was refused.

        Args:
            category: Failure category of the program, or of the request.
        """
        self._failures[category] += 1

    def render(self, gauges: Mapping[str, Reading], counters: Mapping[str, Reading]) -> str:
        """Everything in Prometheus' text format, version 0.0.4.

        Args:
            gauges: Name to help text and value of what goes up and down.
            counters: Name to help text and value of what is counted elsewhere.
        """
        lines = _head("requests_total", "counter", "Requests by path and status.")
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'{PREFIX}_requests_total{{path="{path}",status="{status}"}} {count}')
        lines += _head("request_seconds", "histogram", "Seconds from a request to its answer.")
        for path, histogram in sorted(self._latencies.items()):
            lines += _histogram(path, histogram)
        lines += _head(
            "failures_total", "counter", "Programs without a score and requests refused, by category."
        )
        for category, count in sorted(self._failures.items()):
            lines.append(f'{PREFIX}_failures_total{{category="{category}"}} {count}')
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, (text, value) in values.items():
                lines += [*_head(name, kind, text), f"{PREFIX}_{name} {value}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {PREFIX}_{name} {text}", f"# TYPE {PREFIX}_{name} {kind}"]


def _histogram(path: str, histogram: Histogram) -> list[str]:
    lines, below = [], 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), histogram.counts, strict=True):
        below += count
        lines.append(f'{PREFIX}_request_seconds_bucket{{path="{path}",le="{bound}"}} {below}')
    lines.append(f'{PREFIX}_request_seconds_sum{{path="{path}"}} {histogram.total:.6f}')
    lines.append(f'{PREFIX}_request_seconds_count{{path="{path}"}} {below}')
    return lines
