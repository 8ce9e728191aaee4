"""The LightningModule: a policy, a learned log Z per task, and a GFlowNet objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeVar

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from synthstats_lightning.learning.adapter_checkpoints import (
    check_checkpoint,
    save_adapter_only,
    sign_checkpoint,
)
from synthstats_lightning.learning.log_z_updates import estimate_log_z, learn_prompts
from synthstats_lightning.learning.loops import check_not_compiled, is_log_step
from synthstats_lightning.learning.loss_inputs import check_needs, loss_inputs
from synthstats_lightning.learning.moving_reference import MovingReference
from synthstats_lightning.learning.parameter_groups import parameter_groups
from synthstats_lightning.learning.rates import keep_own_rates, scheduled
from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.learning.skipped_steps import SkippedSteps
from synthstats_lightning.learning.specification import check_specified, specify
from synthstats_lightning.learning.step_metrics import step_metrics
from synthstats_lightning.learning.throughput import Throughput
from synthstats_lightning.objectives import (
    FlowHead,
    LogPartition,
    LogZ,
    LossOutput,
    Objective,
    PromptLogZ,
    ScalarLogZ,
    TrajectoryBalance,
)
from synthstats_lightning.policy import (
    LoraSettings,
    ModelSettings,
    Policy,
    Reference,
    SamplingSettings,
    TrainerMode,
    check_adapter_folder,
    check_four_bits,
    check_trainer_mode,
    load_policy,
    resolve,
)
from synthstats_lightning.replay import TrajectoryBatch
from synthstats_lightning.runtime.default_dtype import float32_by_default
from synthstats_lightning.runtime.former_names import renamed_hyper_parameters
from synthstats_lightning.runtime.seeds import default_seed
from synthstats_lightning.runtime.strategies import check_strategy

_INSTANTIATOR = "lightning.pytorch.cli.instantiate_module"


T = TypeVar("T", bound="GFlowNetModule")


class GFlowNetModule(SamplingModule):
    """Trains a policy to write programs in proportion to their reward.

    `training_step` recomputes the log-probabilities of replayed programs and applies the objective; it
    depends on the batch alone, so that any source of `TrajectoryBatch` will do. Checkpoints hold what is
    trained and log Z, not frozen weights.

    Args:
        policy: A causal language model: `"tiny"` (bundled), a folder, or a name on the Hugging Face hub.
        tasks: Names of the tasks, one log Z each. The command line takes them from the data module.
        lora: Rank, scale and target layers of the LoRA adapter, where none is given.
        model: How the base weights are loaded.
        objective: What is minimised; trajectory balance by default.
        optimizer: Called with the parameter groups `adapter` (with `trainer_mode: full` `weights`) and
            `log_z`, and `flow` where the objective learns flows.
        lr_scheduler: Called with the optimizer; stepped after every training step, one that waits for a
            plateau by its `monitor`, `train/loss` by default.
        log_z_lr: Learning rate of log Z, usually a hundred times the policy's or more.
        log_z_init: First value of log Z, in nats, which only gradients move; with `None` it starts from the
            importance estimate of the warm-up and follows that of recent programs, or, without
            `ProgramScoring`, starts from the log-variance estimate of the first batch.
        log_z_form: `"task"`: a number a task; `"scalar"`: one number; `"prompt"`: a function of the prompt.
        flow_lr: Learning rate of the flow head of objectives that have one.
        flow_width: Units of the flow head's hidden layer.
        sampling: How validation, test and prediction sample; its `min_new_tokens` is that of all samples and
            losses.
        max_skipped_steps: Training steps in a row that are skipped because a gradient is not finite, before
            the run ends with the reason.
        adapter: Folder of a saved adapter that training starts from, such as the one that supervised training
            leaves in its run's folder; `None` starts a new one by `lora`.
        reference: Which policy the reference is, and so the prior: the `"base"` model, or the model with the
            `"adapter"` that was given, as it is in its folder.
        trainer_mode: What is trained: an adapter (`"lora"`), one on a base in 4 bits (`"qlora"`), or all
            weights of the language model in float32 (`"full"`), where `lora` has no part, and the reference
            is a frozen copy of `policy` as it was loaded.
        reference_device: Where that copy stays, such as `"cpu"` or `"cuda:1"`; by default where the policy
            is.
        seed: Seeds the sampling streams, together with rank and step; by default that of `seed_everything`.

    Raises:
        ValueError: If a number is out of range, or the objective needs what a run does not have.
        FileNotFoundError: If `policy` is written like a path and there is no model, or there is no adapter.
    """

    def __init__(
        self,
        policy: str = "tiny",
        tasks: Sequence[str] = ("dugongs",),
        lora: LoraSettings | None = None,
        model: ModelSettings | None = None,
        objective: Objective | None = None,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        log_z_lr: float = 0.1,
        log_z_init: float | None = None,
        log_z_form: Literal["task", "scalar", "prompt"] = "task",
        flow_lr: float = 1e-3,
        flow_width: int = 64,
        sampling: SamplingSettings | None = None,
        seed: int | None = None,
        max_skipped_steps: int = 20,
        adapter: str | None = None,
        reference: Reference = "base",
        trainer_mode: TrainerMode = "lora",
        reference_device: str | None = None,
    ) -> None:
        super().__init__()
        for name, value in {"log_z_lr": log_z_lr, "flow_lr": flow_lr}.items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if flow_width < 1:
            raise ValueError(f"flow_width must be at least 1, got {flow_width}")
        if log_z_form not in ("task", "scalar", "prompt"):
            raise ValueError(f"log_z_form must be 'task', 'scalar' or 'prompt', got {log_z_form!r}")
        resolve(policy)  # a missing folder is an error here rather than minutes later
        quantised = model is not None and model.load_in_4bit
        check_trainer_mode(trainer_mode, adapter, reference, reference_device, quantised)
        if trainer_mode == "qlora" or quantised:
            check_four_bits("trainer_mode: qlora" if trainer_mode == "qlora" else "load_in_4bit: true")
        if adapter is not None:
            check_adapter_folder(adapter)
        self.trainer_mode, self.reference_device = trainer_mode, reference_device
        self.policy_name = policy
        self.adapter, self.reference_policy = adapter, reference
        self.tasks = list(tasks)
        self.lora = lora or LoraSettings()
        self.model_settings = model or ModelSettings()
        self.objective = objective or TrajectoryBalance()
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.log_z_lr = log_z_lr
        self.sampling = sampling or SamplingSettings()
        self.seed = default_seed() if seed is None else seed
        check_needs(self.objective.needs, type(self.objective).__name__)
        self.max_skipped_steps = max_skipped_steps
        self.skipped_steps = SkippedSteps(max_skipped_steps)
        self._steps_before = -1
        self._last_loss: Tensor | float = math.nan
        self.log_z_form, self.log_z_init = log_z_form, log_z_init
        self.flow_lr, self.flow_width = flow_lr, flow_width
        self.log_z: LogPartition
        self.configure_log_z()
        self.estimates_first_log_z = log_z_init is None
        self.estimated_elsewhere = False
        self.flow_head: FlowHead | None = None
        self.reference = MovingReference(self.objective.reset_reference_every)
        self.batch_residual: Tensor | None = None
        self.throughput: Throughput | None = None
        self.policy: Policy | None = None
        save_adapter_only(self)

        # `save_hyperparameters` reads the local variables: plain data instead of objects make the checkpoint
        # loadable with `weights_only=True`. Under LightningCLI it takes the parsed configuration instead.
        lora = asdict(self.lora)  # type: ignore[assignment]
        model = asdict(self.model_settings)  # type: ignore[assignment]
        sampling = asdict(self.sampling)  # type: ignore[assignment]
        tasks = self.tasks
        objective = specify(self.objective)  # type: ignore[assignment]
        optimizer = specify(optimizer)  # type: ignore[assignment]
        lr_scheduler = specify(lr_scheduler)  # type: ignore[assignment]
        self.save_hyperparameters()
        if "_instantiator" not in self.hparams:
            self.hparams["_instantiator"] = _INSTANTIATOR

    def configure_model(self) -> None:
        """Loads the policy; called by Lightning once the trainer is known, and by `load_from_checkpoint`."""
        if self.policy is None:
            given = self.policy_name, self.lora, self.model_settings, self.adapter, self.seed
            mode = self.trainer_mode, self.reference_device
            self.policy = load_policy(*given, self.reference_policy, *mode)
            hidden_size = int(self.policy.language_model.get_input_embeddings().weight.shape[1])
            self.configure_log_z(hidden_size)
            self.configure_flow(hidden_size)

    def configure_log_z(self, hidden_size: int | None = None) -> None:
        """Makes log Z; as a function of the prompt it is made anew when the policy's hidden size is known."""
        size, initial = len(self.tasks), self.log_z_init or 0.0
        if hidden_size is None:
            self.log_z = (ScalarLogZ if self.log_z_form == "scalar" else LogZ)(size, initial=initial)
        elif self.log_z_form == "prompt":
            self.log_z = PromptLogZ(size, hidden_size, initial=initial)

    def configure_flow(self, hidden_size: int) -> None:
        """Makes the flow head where the objective learns flows."""
        if "log_flow" in self.objective.needs:
            self.flow_head = FlowHead(hidden_size, self.flow_width, self.seed)

    def configure_optimizers(self) -> Any:
        """One optimizer with named groups: the policy, and log Z with its own rate and no weight decay.

        Raises:
            ValueError: If `optimizer` or `lr_scheduler` is an anonymous function: checkpoints need a name.
        """
        for name in ("optimizer", "lr_scheduler"):
            check_specified(name, getattr(self, name), self.hparams.get(name))
        groups = parameter_groups(
            self.loaded_policy,
            self.objective,
            self.flow_head,
            self.log_z,
            flow_lr=self.flow_lr,
            log_z_lr=self.log_z_lr,
        )
        optimizer = self.optimizer(groups)
        if self.lr_scheduler is None:
            return optimizer
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        scheduler = self.lr_scheduler(optimizer)
        keep_own_rates(optimizer, scheduler, rates)
        return scheduled(optimizer, scheduler)

    def setup(self, stage: str) -> None:
        """Refuses strategies that shard the policy, and a module that was compiled.

        Raises:
            ValueError: If the trainer has one, or it was.
        """
        check_strategy(self.trainer.strategy)
        check_not_compiled(self)

    def on_train_start(self) -> None:
        """Starts the clock of `perf/...`."""
        self.throughput = Throughput(self.device)

    def on_validation_start(self) -> None:
        """Stops that clock."""
        if self.throughput is not None:
            self.throughput.hold()

    def on_validation_end(self) -> None:
        """Starts it again."""
        if self.throughput is not None:
            self.throughput.go_on()

    def on_train_batch_end(self, outputs: Any, batch: TrajectoryBatch, batch_idx: int) -> None:
        """Logs `perf/...`: tokens per second of all ranks together, and the most memory of one."""
        if self.throughput is None:
            return
        self.throughput.trained(batch.written)
        if self.ended_step(self.trainer) and is_log_step(self.trainer):
            for name, value in self.throughput.read().items():
                of_ranks = "max" if "memory" in name else "sum"
                self.log(name, value, batch_size=1, sync_dist=True, reduce_fx=of_ranks)

    def on_train_end(self) -> None:
        """Ends the clock."""
        self.throughput = None

    def training_step(self, batch: TrajectoryBatch, batch_idx: int) -> Tensor:
        """Log-probabilities of replayed programs, then the objective."""
        self._steps_before = self.global_step
        with float32_by_default():
            output = self.objective_loss(batch)
        self._last_loss = output.loss.detach()
        size = max(1, len(batch))
        log_z = self.log_z.per_task()
        for index, task in enumerate(self.tasks):
            self.log(f"train/log_z/{task}", log_z[index], batch_size=size)
        self.log("log_z", log_z.mean(), batch_size=size, prog_bar=True, logger=False)
        for name, value in step_metrics(output, len(batch)).items():
            self.log(f"train/{name}", value, batch_size=size)
        self.log("train/skipped_steps", float(self.skipped_steps.count), batch_size=1)
        return output.loss

    def ended_step(self, trainer: Trainer) -> bool:
        """Whether the last batch ended a training step: with accumulated gradients, one of several does.

        Args:
            trainer: It has counted the batch.
        """
        return trainer.global_step != self._steps_before

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Skips the step if a gradient is not finite."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.skipped_steps.check(parameters, float(self._last_loss))

    def objective_loss(self, batch: TrajectoryBatch) -> LossOutput:
        """The objective's loss of a batch, with log Z started, or followed, from the batch."""
        policy, objective, task = self.loaded_policy, self.objective, batch.task_index
        learn_prompts(self.log_z, policy, batch)
        self.reference.step(policy, self.global_step)
        if not len(batch):
            return self._no_loss(batch)
        inputs = loss_inputs(policy, batch, objective.needs, self.sampling.min_new_tokens)
        log_prob = inputs.log_prob
        if self.reference.adapter is not None:
            reference = self.reference.log_probs(policy, batch, self.sampling.min_new_tokens)
            inputs.named["reference_log_prob"] = reference
        ratio = objective.log_target_ratio(log_prob.detach(), batch.log_reward, inputs.named)
        self._estimate_log_z(ratio, task)
        log_z = self.log_z(task)
        if self.flow_head is not None and inputs.hidden is not None:
            inputs.named["log_flow"] = self.flow_head(inputs.hidden, log_z)
        self.batch_residual = (log_z - ratio).detach()
        output: LossOutput = objective(log_prob, batch.log_reward, log_z, **inputs.named)
        if not objective.learns_log_z:
            # every parameter takes part, as distributed training wants, without being moved
            output = output._replace(loss=output.loss + 0.0 * log_z.sum())
        return output

    def _no_loss(self, batch: TrajectoryBatch) -> LossOutput:
        """A step of a rank without programs: no gradient, and its part in whatever the others exchange."""
        objective, nothing = self.objective, batch.log_reward
        self._estimate_log_z(nothing, batch.task_index)
        objective.join(nothing)
        self.batch_residual = nothing
        zero = torch.stack([0.0 * p.sum() for p in self.parameters() if p.requires_grad]).sum()
        return LossOutput(zero, nothing, {})

    def _estimate_log_z(self, log_ratio: Tensor, task_index: Tensor) -> None:
        always = not (self.objective.learns_log_z or self.estimated_elsewhere)
        estimate_log_z(self.log_z, log_ratio, task_index, first=self.estimates_first_log_z, always=always)

    def learned_log_z(self, task_index: int) -> float:
        """Log Z of a task as learned so far, in nats."""
        return float(self.log_z.per_task()[task_index])

    @classmethod
    def load_from_checkpoint(cls: type[T], checkpoint_path: Any, *options: Any, **changed: Any) -> T:
        """As Lightning's, with classes that have moved since found where they are.

        Args:
            checkpoint_path: Path of the checkpoint, or an open file.
            *options: Further arguments of Lightning's method of this name.
            **changed: Hyperparameters in place of the checkpoint's, and options of Lightning's method.
        """
        changed = renamed_hyper_parameters(checkpoint_path) | changed
        return super().load_from_checkpoint(checkpoint_path, *options, **changed)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds what the adapter belongs to."""
        sign_checkpoint(checkpoint, self.loaded_policy)
        checkpoint["skipped_steps"] = self.skipped_steps.count
        if self.reference.adapter is not None:
            checkpoint["reference_adapter"] = self.reference.adapter

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses a checkpoint of another format or of another base model.

        Raises:
            ValueError: If the format, the base model or its tokenizer differ.
        """
        # `load_from_checkpoint` builds the module from these, but does not tell the module; a run that goes
        # on has settings of its own, which its checkpoints are to name
        if self._trainer is None:
            self._set_hparams(checkpoint[self.CHECKPOINT_HYPER_PARAMS_KEY])
        check_checkpoint(checkpoint, self.loaded_policy)
        self.reference.adapter = checkpoint.get("reference_adapter")
        self.skipped_steps.count = checkpoint.get("skipped_steps", 0)

    def save_pretrained(self, folder: str) -> None:
        """Writes the adapter in PEFT form, or a model trained whole, and the tokenizer to a folder."""
        self.loaded_policy.save_pretrained(folder)
