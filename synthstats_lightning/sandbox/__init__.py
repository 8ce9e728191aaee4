"""Running untrusted source into a model graph.

`Sandbox` is the trusted side. Everything else here that touches PyMC runs in a worker process that a
`Sandbox` starts; importing this package imports neither PyMC nor torch.
"""

from synthstats_lightning.sandbox.client import Sandbox, UnconfinedWarning
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.process import SandboxError

__all__ = ["Sandbox", "SandboxError", "SandboxLimits", "UnconfinedWarning"]
