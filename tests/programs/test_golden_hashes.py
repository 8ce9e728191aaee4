"""Hashes that must not change within a minor release: caches, logs and reports are keyed by them.

A change of the canonical form is announced in the changelog, and the file written anew by
`python -m tests.programs.test_golden_hashes`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from synthstats_lightning.programs import canonical_model, parse_graph
from tests.programs.models import SCHEMA, log_linear, random_model

FILE = Path(__file__).with_name("golden_hashes.json")


def documents() -> dict[str, str]:
    """Fixed documents by name, as JSON: what the hashes are of is in the file, too."""
    found = {"log linear": json.dumps(log_linear().document())}
    return found | {f"random {seed}": json.dumps(random_model(random.Random(seed))) for seed in range(12)}


def hashes(text: str) -> dict[str, str]:
    model = canonical_model(parse_graph(text, SCHEMA))
    return {"canonical": model.hash, "structure": model.structure}


def test_hashes_are_those_of_the_golden_file():
    golden = json.loads(FILE.read_text())
    assert len(golden) == 13
    for name, entry in golden.items():
        assert hashes(entry["document"]) == {key: entry[key] for key in ("canonical", "structure")}, name


def test_hashes_are_stable_across_processes_and_hash_seeds():
    code = (
        "import json\n"
        "from tests.programs.test_golden_hashes import FILE, hashes\n"
        "print(json.dumps({k: hashes(v['document']) for k, v in json.loads(FILE.read_text()).items()}))"
    )
    golden = json.loads(FILE.read_text())
    expected = {name: hashes(entry["document"]) for name, entry in golden.items()}
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == expected


if __name__ == "__main__":
    FILE.write_text(
        json.dumps({name: {**hashes(text), "document": text} for name, text in documents().items()}, indent=1)
        + "\n"
    )
