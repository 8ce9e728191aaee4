"""The section `rollouts` of a run: inference servers, or vLLM in process, write the training programs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from synthstats_lightning.learning.loops import hear_sigterm, is_log_step
from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.policy import check_plain_source
from synthstats_lightning.policy.prompt_room import check_plain
from synthstats_lightning.policy.sampling_backend import LOCAL
from synthstats_lightning.rollouts.adapter_versions import AdapterVersion, AdapterVersions, check_adapter
from synthstats_lightning.rollouts.connection import Connection, check_url, is_public, key_headers
from synthstats_lightning.rollouts.dialects import DIALECTS, Api
from synthstats_lightning.rollouts.engine_connection import EngineConnection
from synthstats_lightning.rollouts.engine_settings import engine_settings
from synthstats_lightning.rollouts.errors import RefusedError, RolloutError
from synthstats_lightning.rollouts.rollout_counts import RolloutCounts
from synthstats_lightning.rollouts.server_backend import RELOADS, ServerBackend, check_settings
from synthstats_lightning.rollouts.transport import Transport
from synthstats_lightning.rollouts.vllm_engine import VLLMEngine, check_installed
from synthstats_lightning.rollouts.weight_check import (
    WARM,
    check_gap,
    checked_programs,
    gap,
    long_prompt,
)
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size
from synthstats_lightning.tasks import Task, task_prompt

Writer = Literal["server", "vllm"]
"""Who writes: the servers of `url`, or vLLM in the trainer's own process."""
USE = "sampling on a server"
"""What a policy is used for here, as errors say it."""
CHECK_PROMPT = "", "Write a program."
"""Of the checks of a run whose data module has no tasks."""


class ServerRollouts(Callback):
    """Has inference servers write the programs of training rounds, and publishes the adapter as it learns.

    The servers speak vLLM's completions API, or SGLang's native one, with token ids in and out, and hold the
    run's base model. Every log-probability that the loss sees is computed by the trainer for the token ids
    that come back; every answer is checked, and one that breaks what it was asked for ends the run. Whatever
    a sampling probability is divided by (validation, test, reports, `metrics`) the trainer samples itself.

    Every version of the adapter has a folder and a name of its own. It is loaded by every server, checked
    against the trainer's own log-probabilities, and only then used. A server that is away is waited for; one
    that was started anew is given the present version again.

    With `backend: vllm` an engine in the trainer's own process takes the servers' place, with weights of its
    own; it is asked, checked and given versions in the same way, and takes turns with the trainer.

    Logs `rollout/tokens_per_second`, `rollout/version_age` (training steps since the adapter that wrote a
    program was published, mean), `rollout/server_gap` (nats a token; mean absolute difference between servers
    and trainer under the same weights), `rollout/failed_requests` (made again), `rollout/publish_seconds` and
    `rollout/waiting_seconds` (since the last log).

    Args:
        url: Of the server, such as `http://127.0.0.1:8000`, or of several, one a replica; `None` for none:
            the trainer samples itself.
        publish_every: Training steps between versions.
        base_model: The base model's name at the server; by default that of the one which it serves.
        keep: Versions besides the present one that the server keeps; its `--max-loras` is one more than
            that at least.
        adapter_folder: Where versions are written; by default `adapters` in the run's folder.
        path_on_server: Where the server sees that folder, if that is elsewhere.
        api_key_env: Name of the environment variable that holds the server's key.
        timeout_s: Seconds for which a server may send nothing before it is asked again.
        patience_s: Seconds for which a server that is away is waited for.
        overlap: Whether the next round of programs is written while the trainer learns from those before, by
            an adapter that is as much older; never where `scoring.synchronous` is set, for objectives on
            policy, and for suffixes and episodes.
        max_gap: Largest mean difference of log-probabilities in a check, in nats a token: 0.05 is well above
            what bfloat16 rounds, and far below what other weights come to.
        api: What the servers are asked in: vLLM's completions, or SGLang's native generation.
        backend: Who writes: the servers of `url`, or with `"vllm"` an engine in this process, of the extra
            `vllm`. Where it does, the run is of one process, `overlap` changes nothing, and what is said of
            servers' addresses and patience is not used.
        gpu_memory_utilization: Share of the GPU's memory that the engine in this process takes, its copy of
            the base model included.

    Raises:
        ValueError: If a number is out of range, a URL is none or given to an engine in this process, or the
            environment has no key of that name.
    """

    def __init__(
        self,
        url: str | list[str] | None = None,
        publish_every: int = 8,
        base_model: str | None = None,
        keep: int = 2,
        adapter_folder: str | None = None,
        path_on_server: str | None = None,
        api_key_env: str | None = None,
        timeout_s: float = 600.0,
        patience_s: float = 600.0,
        max_gap: float = 0.05,
        overlap: bool = True,
        api: Api = "vllm",
        backend: Writer = "server",
        gpu_memory_utilization: float = 0.3,
    ) -> None:
        if backend not in get_args(Writer):
            raise ValueError(f"backend must be one of {', '.join(get_args(Writer))}, got {backend!r}")
        if backend == "vllm" and url:
            raise ValueError(f"url must be null with backend vllm, which asks no server, got {url!r}")
        if not 0 < gpu_memory_utilization < 1:
            raise ValueError(f"gpu_memory_utilization must be between 0 and 1, got {gpu_memory_utilization}")
        if api not in DIALECTS:
            raise ValueError(f"api must be one of {', '.join(DIALECTS)}, got {api!r}")
        for name, least, value in (("publish_every", 1, publish_every), ("keep", 0, keep)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        for name, number in {"timeout_s": timeout_s, "patience_s": patience_s, "max_gap": max_gap}.items():
            if not 0 < number < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {number}")
        self.urls = [check_url(each) for each in ([url] if isinstance(url, str) else url or [])]
        if self.urls:
            key_headers(api_key_env)
        self.publish_every = publish_every
        self.base_model = base_model
        self.keep = keep
        self.adapter_folder = adapter_folder
        self.path_on_server = path_on_server
        self.api_key_env = api_key_env
        self.timeout_s = timeout_s
        self.patience_s = patience_s
        self.max_gap = max_gap
        self.overlap = overlap
        self.api: Api = api
        self.in_process = backend == "vllm"
        self.gpu_memory_utilization = gpu_memory_utilization
        self.backend: ServerBackend | None = None
        self._prompt: tuple[int, ...] = ()
        self._step = -1

    @property
    def asked(self) -> bool:
        """Whether anybody but the trainer writes."""
        return self.in_process or bool(self.urls)

    def check(self, module: object, callbacks: Sequence[object]) -> None:
        """Refuses a run that asks for what a server cannot do.

        Args:
            module: The module that the run trains.
            callbacks: The run's; those with `sampling` draw programs by it.

        Raises:
            TypeError: If the module does not sample.
            FileNotFoundError: If the module's policy is a folder that is not there.
            ValueError: If the policy words requests itself, all weights are trained, the settings mix uniform
                tokens in, the objective needs programs of the present policy and gets others, or vLLM is
                asked for and missing.
        """
        if not isinstance(module, SamplingModule):
            raise TypeError(f"rollouts need a module that samples, got {type(module).__name__}")
        if isinstance(name := getattr(module, "policy_name", None), str):
            check_plain_source(name, USE)
        if getattr(module, "trainer_mode", "lora") == "full":
            raise ValueError(
                "trainer_mode must be lora or qlora with rollouts: servers and engines take adapters only"
            )
        if getattr(getattr(module, "objective", None), "on_policy", False) and self.publish_every != 1:
            raise ValueError(
                f"publish_every must be 1 for an objective on policy, got {self.publish_every}: it learns"
                " from programs of the present policy"
            )
        for source in (module, *callbacks):
            check_settings(getattr(source, "sampling", None))
        if self.in_process:
            check_installed()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Connects to the servers, where the run trains.

        Raises:
            TypeError: If the module does not sample.
            ValueError: If the settings ask for what a server cannot do; see `check`.
        """
        if stage != "fit" or not self.asked or self.backend is not None:
            return
        self.check(pl_module, getattr(trainer, "callbacks", []))
        if self.in_process:  # which is started for a policy that is there
            if trainer.world_size > 1:
                raise ValueError(
                    f"rollouts.backend must be server for a run of several processes, got vllm and"
                    f" {trainer.world_size} processes"
                )
            return
        connections = [
            Connection(url, self.api_key_env, self.timeout_s, self.patience_s, self.api) for url in self.urls
        ]
        if public := [each.url for each in connections if is_public(each.url)]:
            rank_zero_warn(
                f"{public[0]} is a public address: a server that loads adapters at run time loads any folder"
                " for whoever reaches it; keep it on this machine or in a private network"
            )
        self._connect(trainer, pl_module, connections)

    def _connect(self, trainer: Trainer, module: LightningModule, connections: Sequence[Transport]) -> None:
        folder = Path(self.adapter_folder or Path(trainer.log_dir or trainer.default_root_dir) / "adapters")
        run = gather_objects(AdapterVersions([], folder).run)[0]
        versions = AdapterVersions(connections, folder, self.path_on_server, self.keep, run)
        self.backend = ServerBackend(connections, versions)
        waits = any(getattr(each, "synchronous", False) for each in getattr(trainer, "callbacks", []))
        waits |= getattr(getattr(module, "objective", None), "on_policy", False)
        self.backend.overlap = self.overlap and not waits and not self.in_process

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Checks that the servers have the same base model, and publishes the first version.

        Raises:
            RolloutError: If they have not, or will not do what is asked.
        """
        if not self.asked or not isinstance(pl_module, SamplingModule):
            return
        policy = pl_module.loaded_policy
        check_plain(policy, USE)
        check_adapter(policy)
        tasks: Sequence[Task] = getattr(getattr(trainer, "datamodule", None), "tasks", [])
        prompts = [policy.encode_prompt(*task_prompt(task)) for task in tasks]
        if self.in_process and self.backend is None:
            sources = (pl_module, *getattr(trainer, "callbacks", []))
            settings = engine_settings(
                policy, tasks, prompts, sources, self.keep, self.gpu_memory_utilization
            )
            rank_zero_info(f"vLLM is started in this process: {settings.served.model}")
            self._connect(trainer, pl_module, [EngineConnection(lambda: VLLMEngine(settings))])
        backend = self._connected
        backend.between = lambda: hear_sigterm(trainer)
        prompts = prompts or [policy.encode_prompt(*CHECK_PROMPT)]
        self._prompt = long_prompt(policy, prompts)
        self._step = trainer.global_step
        self._on_first_rank(lambda: self._meet(trainer, pl_module))
        backend.mode = gather_objects(backend.mode)[0]
        self._publish(trainer, pl_module)
        pl_module.rounds_backend = backend
        rank_zero_info(
            f"training programs are written by {', '.join(each.url for each in backend.connections)}: adapter"
            f" {backend.versions.current.name if backend.versions.current else ''}, {backend.mode}"
            " log-probabilities"
        )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After a training step: publishes the adapter when it is due, and logs."""
        if self.backend is None or not isinstance(pl_module, SamplingModule):
            return
        if trainer.global_step == self._step:
            return
        self._step = self.backend.current_step = trainer.global_step
        self.backend.same_weights = False
        if self._step % self.publish_every == 0:
            self._publish(trainer, pl_module)
        if is_log_step(trainer):
            counts = sum(gather_objects(self.backend.take_counts()), RolloutCounts())
            for name, value in counts.metrics().items():
                pl_module.log(name, value, batch_size=1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The trainer samples itself again; the servers and the disk are rid of the versions."""
        if self.backend is not None:
            gather_objects(None)  # another rank may still wait for programs of its last round
        self._end(pl_module)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """As at the end of training."""
        self._end(pl_module)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """As at the end of training."""
        self._end(pl_module)

    def _end(self, module: LightningModule) -> None:
        backend, self.backend = self.backend, None
        if backend is None:
            return
        if isinstance(module, SamplingModule):
            module.rounds_backend = LOCAL
        if rank_and_size()[0] == 0:
            backend.versions.close()
        backend.close()

    def _meet(self, trainer: Trainer, module: SamplingModule) -> None:
        """The base model on every server is that of the run; of what its log-probabilities are."""
        backend = self._connected
        for connection in backend.connections:
            name = self.base_model or backend.called(lambda: served_model(connection))  # noqa: B023
            where = f"{connection.url}, base model {name!r}"
            check_gap(self._gap(trainer, module, connection, name, True), self.max_gap, where)
            warm = self._gap(trainer, module, connection, name, True, WARM)
            backend.mode = "raw" if warm <= self.max_gap else connection.dialect.warm

    def _gap(
        self,
        trainer: Trainer,
        module: SamplingModule,
        connection: Transport,
        model: str,
        reference: bool = False,
        temperature: float = 1.0,
    ) -> float:
        policy = module.loaded_policy
        programs = self._connected.called(
            checked_programs(policy, connection, model, self._prompt, temperature, reference)
        )
        with trainer.precision_plugin.forward_context():
            return gap(policy, self._prompt, programs, reference)

    def _loaded_gap(
        self, trainer: Trainer, module: SamplingModule, connection: Transport, version: AdapterVersion
    ) -> float:
        """That of a version which the server has loaded, and loads again where it was started anew since."""
        backend, left = self._connected, RELOADS
        while True:
            try:
                return self._gap(trainer, module, connection, version.name)
            except RefusedError as error:
                left -= 1
                if not connection.dialect.lost(error) or not left:
                    raise
                backend.called(lambda: backend.versions.reload(connection, version))

    def _publish(self, trainer: Trainer, module: SamplingModule) -> None:
        """A new version, on every server, checked, and used from now on by every rank."""
        backend, started = self._connected, time.perf_counter()
        versions, step = backend.versions, trainer.global_step
        made: list[AdapterVersion] = []

        def publish() -> None:
            version = versions.write(module.loaded_policy, step)
            backend.called(lambda: versions.load(version))
            for connection in backend.connections:
                found = self._loaded_gap(trainer, module, connection, version)
                check_gap(found, self.max_gap, f"{connection.url}, adapter {version.name}")
            made.append(version)

        self._on_first_rank(publish)
        versions.use(gather_objects(made)[0][0])
        backend.current_step, backend.same_weights = step, True
        backend.counts.published += 1
        backend.counts.publish_seconds += time.perf_counter() - started

    @property
    def _connected(self) -> ServerBackend:
        if self.backend is None:
            raise RuntimeError("there are servers only while a run trains")
        return self.backend

    def _on_first_rank(self, action: Callable[[], None]) -> None:
        """Does something on the first rank; what goes wrong there ends all ranks."""
        wrong = ""
        if rank_and_size()[0] == 0:
            try:
                action()
            except RolloutError as error:
                wrong = str(error)
        if wrong := gather_objects(wrong)[0]:
            raise RolloutError(wrong)


def served_model(connection: Transport) -> str:
    """Name of the base model that a server has.

    Args:
        connection: The server that is asked.

    Raises:
        RolloutError: If it names none.
    """
    answer = connection.ask_patiently("/v1/models")
    listed = answer.get("data") if isinstance(answer, dict) else None
    for entry in listed or []:
        if isinstance(entry, dict) and not entry.get("parent") and isinstance(entry.get("id"), str):
            return str(entry["id"])
    raise RolloutError(f"{connection.url}/v1/models names no base model; give base_model")
