"""Tiny random language models of many architectures against their own plain forward passes.

    python benchmarks/language_models/architectures.py --json architectures.json

For each: the largest difference of log-probabilities, sampled and teacher-forced, from one unpadded sequence
after the other; that of gradients; and under which precisions two training steps work.

JSON: `{models, worst_log_prob_error, worst_gradient_error, trained}`; errors in nats and by the norm of the
gradient, `trained` counts the models that train under every precision.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from synthstats_lightning.testing.architectures import (
    ARCHITECTURES,
    PRECISIONS,
    audit_architecture,
    save_architecture,
)

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file


def main() -> None:
    """Audits every architecture and prints a table."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("architecture", "log-probability error (nats)", "gradient error", "trains under")
    audits = {}
    for name in ARCHITECTURES:
        with tempfile.TemporaryDirectory() as folder:
            save_architecture(name, Path(folder))
            audits[name] = audit = audit_architecture(Path(folder))
        table.add_row(
            name, f"{audit.log_prob_error:.1e}", f"{audit.gradient_error:.1e}", ", ".join(audit.trained)
        )
    Console().print(table)
    figures = {
        "models": len(audits),
        "worst_log_prob_error": max(audit.log_prob_error for audit in audits.values()),
        "worst_gradient_error": max(audit.gradient_error for audit in audits.values()),
        "trained": sum(audit.trained == PRECISIONS for audit in audits.values()),
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
