"""TRL's GRPOTrainer on the same work: same model, prompts, group size, program length and adapter."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
from learning_parts.throughput_models import LORA, language_model, tokenizer
from learning_parts.throughput_step import prompts
from transformers import PrinterCallback, TrainerCallback


class TrlClock(TrainerCallback):
    """Seconds of each step: sampling, loss, gradient and optimiser."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self._since = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Before the step's batch is sampled."""
        self._since = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """After the optimiser."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.steps.append(time.perf_counter() - self._since)


def constant_reward(completions: list[Any], **_: Any) -> list[float]:
    """The same for every program."""
    return [1.0] * len(completions)


class TrlRun:
    """Steps of GRPO; arguments are those of `OurRun`."""

    def __init__(self, model: str, num_prompts: int, group: int, length: int, device: str = "cpu") -> None:
        from datasets import Dataset
        from peft import LoraConfig
        from trl import GRPOConfig, GRPOTrainer

        cuda = device == "cuda"
        texts = tokenizer()
        rendered = [
            texts.apply_chat_template(
                [{"role": "system", "content": item.rules}, {"role": "user", "content": item.request}],
                add_generation_prompt=True,
                tokenize=False,
                enable_thinking=False,
            )
            for item in prompts(num_prompts)
        ]
        self.prompt_ids = [texts(text, add_special_tokens=False).input_ids for text in rendered]
        self.tokens_per_step = num_prompts * group * length
        self._folder = tempfile.TemporaryDirectory()
        self.clock = TrlClock()
        self._trainer_class, self._arguments = GRPOTrainer, {
            "model": language_model(model, torch.bfloat16 if cuda else torch.float32),
            "reward_funcs": constant_reward,
            "train_dataset": Dataset.from_dict({"prompt": rendered * 2_000}),
            "processing_class": texts,
            "peft_config": LoraConfig(
                r=LORA.rank, lora_alpha=LORA.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
            ),
            "callbacks": [self.clock],
        }  # fmt: skip
        self._config = lambda steps: GRPOConfig(
            output_dir=self._folder.name,
            max_steps=steps,
            per_device_train_batch_size=num_prompts * group,
            gradient_accumulation_steps=1,
            num_generations=group,
            steps_per_generation=1,
            num_iterations=1,
            max_completion_length=length,
            generation_kwargs={"min_new_tokens": length},
            beta=0.0,
            learning_rate=1e-3,
            gradient_checkpointing=False,
            bf16=cuda,
            use_cpu=not cuda,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            shuffle_dataset=False,
            seed=0,
        )
        self._trainer: Any = None

    def steps(self, number: int) -> list[float]:
        """Seconds of so many steps; one more before them is not counted."""
        self.clock.steps = []
        if self._trainer is None:
            self._trainer = self._trainer_class(args=self._config(number + 1), **self._arguments)
            self._trainer.remove_callback(PrinterCallback)
        self._trainer.train()
        return self.clock.steps[1:]
