"""What is asked of a policy beside its training: fresh programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from synthstats_lightning.learning.loops import hear_sigterm
from synthstats_lightning.learning.prompts import PromptBatch
from synthstats_lightning.learning.throughput import Throughput
from synthstats_lightning.policy import (
    Environment,
    Policy,
    SampledPrograms,
    SamplingSettings,
    resample_suffixes,
    sample_episodes,
)
from synthstats_lightning.policy.forced import forced_behaviour_log_probs, forced_log_probs
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.policy.memory_plan.plan import MemoryPlan
from synthstats_lightning.policy.prompt_room import check_plain, check_reads_data, check_room
from synthstats_lightning.policy.sampling_backend import LOCAL, REFERENCE, SamplingBackend
from synthstats_lightning.replay import TrajectoryBatch
from synthstats_lightning.runtime.default_dtype import float32_by_default
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import Prompt

PROGRAMS = "programs"
"""Under this key `validation_step` and `test_step` return what they sampled."""
SANITY_PROGRAMS = 8
"""Programs a task, at most, in a batch of the sanity check, which is to show that validation works at all."""


class SamplingModule(LightningModule):
    """A module with a policy that writes programs for validation, test, prediction and callbacks.

    Attributes:
        policy: The policy; `None` until it is loaded.
        sampling: Settings of validation, test and prediction; `min_new_tokens` is that of all samples.
        seed: Seeds the sampling streams, together with rank and step.
        throughput: Counts sampled tokens while there is one.
        asks_first: Whether programs come with what an untrained policy writes them with, which the target has
            on its way.
        rounds_backend: Who writes the programs of training rounds. All others, whose sampling probability
            something is divided by, this process writes itself.
    """

    policy: Policy | None
    sampling: SamplingSettings
    seed: int
    throughput: Throughput | None
    asks_first: bool = False
    rounds_backend: SamplingBackend = LOCAL
    _told: MemoryPlan | None = None

    @property
    def loaded_policy(self) -> Policy:
        """The policy.

        Raises:
            RuntimeError: If `configure_model` has not run.
        """
        if self.policy is None:
            raise RuntimeError("the policy is not loaded yet: call configure_model() first")
        return self.policy

    def validation_step(
        self, batch: PromptBatch | TrajectoryBatch, batch_idx: int
    ) -> dict[str, SampledPrograms] | None:
        """Fresh programs, which `ProgramScoring` scores; of given programs the loss of imitating them."""
        if isinstance(batch, TrajectoryBatch):
            self._imitation_step(batch, "val")
            return None
        if self.trainer.sanity_checking:
            batch = batch.at_most(SANITY_PROGRAMS)
        return self._evaluation_step(batch, "val")

    def test_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, SampledPrograms]:
        """Fresh programs, which `ProgramScoring` scores."""
        return self._evaluation_step(batch, "test")

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> SampledPrograms:
        """Fresh programs."""
        return self._sample(batch, stream=Stream.PREDICTION.at(batch.batch_index))

    def on_validation_batch_end(self, *batch: Any, **more: Any) -> None:
        """Ends here if the process was asked to."""
        hear_sigterm(self.trainer)

    def on_test_batch_end(self, *batch: Any, **more: Any) -> None:
        """Ends here if the process was asked to."""
        hear_sigterm(self.trainer)

    def on_predict_batch_end(self, *batch: Any, **more: Any) -> None:
        """Ends here if the process was asked to."""
        hear_sigterm(self.trainer)

    def _imitation_step(self, batch: TrajectoryBatch, stage: str) -> None:
        """Logs how well the policy foretells given programs: nats a token, and a program."""
        with float32_by_default():
            tokens = self.loaded_policy.token_log_probs(
                batch.prompt_ids,
                batch.program_ids,
                batch.program_mask,
                batch.prompt_mask,
                min_new_tokens=self.sampling.min_new_tokens,
                own_mask=batch.own_mask,
            )
        number = int(batch.written.sum())
        loss, whole = -tokens.sum() / number, tokens.sum(1).mean()
        self.log(f"{stage}/loss", loss, batch_size=number, sync_dist=True, prog_bar=True)
        self.log(f"{stage}/log_prob", whole, batch_size=len(batch), sync_dist=True)

    def _evaluation_step(self, batch: PromptBatch, stage: str) -> dict[str, SampledPrograms]:
        programs = self._sample(batch, stream=Stream.EVALUATION.at(batch.batch_index))
        size = len(programs.sources)
        self.log(f"{stage}/log_prob", programs.log_prob.mean(), batch_size=size, sync_dist=True)
        self.log(
            f"{stage}/tokens", programs.program_mask.sum(1).float().mean(), batch_size=size, sync_dist=True
        )
        return {PROGRAMS: programs}

    def backend_of(self, stream: int) -> SamplingBackend:
        """Who writes the programs of a random stream.

        Args:
            stream: Number of the random stream.
        """
        trains = Stream.TRAINING.holds(stream) or Stream.PREFIX_RESAMPLING.holds(stream)
        return self.rounds_backend if trains else LOCAL

    def _sample(self, batch: PromptBatch, stream: int) -> SampledPrograms:
        return self.sample(batch.prompts, batch.num_samples, self.sampling, stream, batch.environments)

    def sample(
        self,
        prompts: Sequence[Prompt],
        num_samples: int | Sequence[int],
        settings: SamplingSettings,
        stream: int,
        environments: Sequence[Environment] = (),
        rank: int | None = None,
    ) -> SampledPrograms:
        """Fresh programs, or episodes, from the policy as it is now.

        Args:
            prompts: One a task; the reference policy is given the prior's part of each.
            num_samples: Programs a prompt, one number or one for each.
            settings: Temperature, exploration and length.
            stream: Number of the random stream: equal seed, rank and stream give equal programs.
            environments: What the policy talks to, one a prompt, for episodes of several turns.
            rank: Whose random streams are drawn from; this process's own by default.
        """
        policy = self.loaded_policy
        settings = replace(settings, min_new_tokens=self.sampling.min_new_tokens)
        check_reads_data(policy.text_config, policy.name, any(prompt.data for prompt in prompts))
        if environments:
            check_plain(policy, "experiments")
        encoded = [policy.encode_prompt(*prompt) for prompt in prompts]
        priors = [policy.encode_prompt(*prompt.prior) for prompt in prompts]
        rank = self.global_rank if rank is None else rank
        at: dict[str, Any] = {"seed": self.seed, "rank": rank, "step": stream}
        at |= {"prior_prompts": priors, "backend": self.backend_of(stream)}
        with float32_by_default():
            if environments:
                programs = sample_episodes(policy, environments, encoded, num_samples, settings, **at)
            else:
                requests = [prompt.request for prompt in prompts]
                config = policy.text_config
                check_room(config, policy.name, encoded, requests, settings.max_new_tokens)
                facts = [prompt.facts for prompt in prompts]
                programs = policy.sample(encoded, num_samples, settings, **at, facts=facts)
                programs = self._with_first(policy, programs, encoded, priors)
        self._tell_plan(policy)
        if self.throughput is not None:
            own = programs.program_mask if programs.own_mask is None else programs.own_mask
            self.throughput.sampled(own)
        return programs

    def sample_prior(
        self,
        prompts: Sequence[Prompt],
        num_samples: int | Sequence[int],
        settings: SamplingSettings,
        stream: int,
    ) -> SampledPrograms:
        """Programs that the reference policy writes, given the prior's prompts, as the policy would have.

        Args:
            prompts: One a task; the policy's log-probabilities are those given the proposal's part of each.
            num_samples: Programs a prompt, one number or one for each.
            settings: Temperature, exploration and length.
            stream: Number of the random stream.

        Returns:
            The programs; their `proposal_log_prob` is what the reference policy drew them with.
        """
        policy = self.loaded_policy
        settings = replace(settings, min_new_tokens=self.sampling.min_new_tokens)
        encoded = [policy.encode_prompt(*prompt) for prompt in prompts]
        priors = [policy.encode_prompt(*prompt.prior) for prompt in prompts]
        at = self.seed, self.global_rank, stream, None, REFERENCE
        facts = [prompt.facts for prompt in prompts]
        with float32_by_default(), torch.no_grad():
            programs = policy.sample(priors, num_samples, settings, *at, facts=facts)
            given = programs.prompt_index, programs.program_ids, programs.program_mask
            with policy.evaluating():
                own = forced_log_probs(policy, encoded, *given, settings.min_new_tokens)
            programs = programs._replace(log_prob=own)
            return self._with_first(policy, programs, encoded, priors)

    def weigh(
        self,
        prompts: Sequence[Prompt],
        prompt_index: Sequence[int],
        programs: Sequence[Sequence[int]],
        drawing: SamplingSettings | None = None,
    ) -> Float[Tensor, " programs"]:
        """Log-probabilities of given programs in answer to the proposal's prompts, in nats.

        Args:
            prompts: One a task.
            prompt_index: Which prompt each program answers.
            programs: Token ids of each program, stop token included.
            drawing: With these settings the untrained policy draws, and the log-probabilities are of that; by
                default they are of the policy as it is now, at temperature 1.
        """
        policy, least = self.loaded_policy, self.sampling.min_new_tokens
        ids, mask = pad_right([tuple(program) for program in programs], policy.pad_token_id, policy.device)
        rows = torch.tensor(list(prompt_index), device=policy.device)
        given = [policy.encode_prompt(*prompt) for prompt in prompts], rows, ids, mask
        with float32_by_default(), torch.no_grad(), policy.evaluating():
            if drawing is None:
                return forced_log_probs(policy, *given, least)
            with policy.reference():
                return forced_behaviour_log_probs(policy, *given, replace(drawing, min_new_tokens=least))

    def _with_first(
        self,
        policy: Policy,
        programs: SampledPrograms,
        prompts: Sequence[Sequence[int]],
        priors: Sequence[Sequence[int]],
    ) -> SampledPrograms:
        """With what an untrained policy writes them with, where that is asked for and no prior."""
        if not self.asks_first or prompts == priors:
            return programs
        given = programs.prompt_index, programs.program_ids, programs.program_mask
        with torch.no_grad(), policy.evaluating(), policy.reference():
            first = forced_log_probs(policy, prompts, *given, self.sampling.min_new_tokens)
        return programs._replace(first_log_prob=first)

    def _tell_plan(self, policy: Policy) -> None:
        """Says how programs are decoded: the first time, and the first time that they do not fit at once."""
        plan = policy.memory.plan
        if plan is not None and (self._told is None or plan.num_blocks > 1 >= self._told.num_blocks):
            rank_zero_info(str(plan))
            self._told = plan

    def resample_suffixes(
        self,
        prompts: Sequence[Prompt],
        prompt_index: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        settings: SamplingSettings,
        stream: int,
    ) -> SampledPrograms:
        """Programs that begin with given tokens and go on as the policy will; see `policy.resample_suffixes`.

        Args:
            prompts: One a task; the reference policy is given the prior's part of each.
            prompt_index: Which prompt each program answers.
            prefixes: First tokens of each program.
            settings: Temperature, exploration and length.
            stream: Number of the random stream.
        """
        policy = self.loaded_policy
        settings = replace(settings, min_new_tokens=self.sampling.min_new_tokens)
        encoded = [policy.encode_prompt(*prompt) for prompt in prompts]
        priors = [policy.encode_prompt(*prompt.prior) for prompt in prompts]
        at = self.seed, self.global_rank, stream
        facts = [prompt.facts for prompt in prompts]
        with float32_by_default():
            backend = self.backend_of(stream)
            programs = resample_suffixes(
                policy, encoded, prompt_index, prefixes, settings, *at, priors, backend=backend, facts=facts
            )
            return self._with_first(policy, programs, encoded, priors)
