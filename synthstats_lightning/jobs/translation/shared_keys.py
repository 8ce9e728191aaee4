"""Keys that job files of several kinds have."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.key import Key

MODES = ("lora", "qlora", "full")
"""What of a policy is trained, and in what form its base is held."""

LORA = (
    Key("training.lora.r", "integer", "Rank of each update.", least=1, path="model.init_args.lora.rank"),
    Key(
        "training.lora.alpha",
        "number",
        "Scale of the update, which is multiplied by `alpha / r`.",
        above=0,
        path="model.init_args.lora.alpha",
    ),
    Key(
        "training.lora.dropout",
        "number",
        "Dropout on the adapter's input while training.",
        least=0,
        most=0.99,
        path="model.init_args.lora.dropout",
    ),
    Key(
        "training.lora.target_modules",
        "texts",
        "Names of the layers that are adapted, or `all-linear`.",
        default="all-linear",
    ),
)
COMPUTE = (
    Key(
        "compute.gpu_type",
        "text",
        "`cpu` trains on the CPU; any other name on the GPUs that are there, whatever they are.",
        default="cpu; a GPU for a policy that is not bundled",
    ),
    Key(
        "compute.gpu_count",
        "integer",
        "Processes that train, one on each GPU, by DDP where they are several; 0 trains on the CPU.",
        unit="GPUs",
        least=0,
        default=1,
    ),
    Key(
        "compute.topology.type",
        "text",
        "Whether trainer and inference server share one machine, on GPUs of their own.",
        allowed=("single_node", "single_node_split", "multi_node"),
        default="single_node",
    ),
    Key(
        "compute.topology.nodes",
        "integer",
        "Machines that train together; torchrun or SLURM starts the processes.",
        unit="machines",
        least=1,
        default=1,
        path="trainer.num_nodes",
    ),
    Key(
        "compute.topology.gpus_for_training",
        "integer",
        "As `compute.gpu_count`, where a server has GPUs of its own.",
        unit="GPUs",
        least=1,
    ),
    Key(
        "compute.topology.gpus_for_vllm",
        "integer",
        "GPUs that the trainer leaves to the inference server, the last ones of the machine.",
        unit="GPUs",
        least=0,
        default=0,
    ),
    Key(
        "compute.topology.gpus_for_ref",
        "integer",
        "Must be 0: the reference is the policy without its adapter, and needs no GPU.",
        unit="GPUs",
        least=0,
        default=0,
    ),
    Key(
        "compute.topology.tensor_parallel",
        "integer",
        "Must be 1: the policy is not sharded; a server may be (`--tensor-parallel-size` of its own).",
        unit="GPUs",
        least=1,
        default=1,
    ),
)
TAGS = Key("tags", "table", "Is written into the first event and shown by `runs`; nothing else reads it.")
