"""Compares the compiled forward pass with the plain one; prints how many graphs were compiled.

python -m tests.policy.compiled_run FOLDER_OF_A_MODEL
"""

from __future__ import annotations

import sys

import torch

from synthstats_lightning.policy import LoraSettings, ModelSettings, SamplingSettings, load_policy
from tests.policy.conftest import awaken
from tests.policy.test_policy import PROMPTS, adapter_gradient, batch


def main(folder: str) -> None:
    """Raises where they differ."""
    torch.set_num_threads(1)
    lora = LoraSettings(rank=4, alpha=8.0)
    plain, compiled = (
        awaken(load_policy(folder, lora, ModelSettings(compile=option), seed=0)) for option in (False, True)
    )
    for time in (9, 14, 31):
        for rows in ([0, 0, 0, 0], [0, 0, 0, 1, 1, 1]):
            arguments = batch(rows, time)
            values, expected = (each.program_log_probs(*arguments) for each in (compiled, plain))
            if not torch.allclose(values, expected, atol=1e-4):
                raise AssertionError(f"values differ at {time} tokens: {values} and {expected}")
            found = adapter_gradient(compiled, values.square().mean())
            slope = adapter_gradient(plain, expected.square().mean())
            if float((found - slope).norm() / slope.norm()) > 1e-4:
                raise AssertionError(f"gradients differ at {time} tokens")
    settings = SamplingSettings(max_new_tokens=6)
    drawn = [each.sample(PROMPTS, 2, settings, seed=0).program_ids for each in (compiled, plain)]
    if not torch.equal(*drawn):
        raise AssertionError("samples differ")
    if compiled.state_dict().keys() != plain.state_dict().keys():
        raise AssertionError("names of parameters differ")
    print(torch._dynamo.utils.counters["stats"]["unique_graphs"])


if __name__ == "__main__":
    main(sys.argv[1])
