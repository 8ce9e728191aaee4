"""A configuration in the making: values by key, what they have been turned into, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthstats_lightning.jobs.translation.configuration import Configuration, get, put
from synthstats_lightning.jobs.translation.key import Key


@dataclass
class Draft:
    """What a translation works on.

    Attributes:
        values: Values of the job file, by dotted key under its present name; all of the right type.
        configuration: What they have been turned into so far.
        problems: What is wrong, a line each.
        warnings: What the user should know, a line each.
    """

    values: Mapping[str, Any]
    configuration: Configuration
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def given(self, name: str, default: Any = None) -> Any:
        """A key's value, or `default` where the job file does not have it.

        Args:
            name: The dotted key.
            default: What holds without it.
        """
        return self.values.get(name, default)

    def has(self, section: str) -> bool:
        """Whether the job file has any key of a section.

        Args:
            section: Dotted name of the section.
        """
        return any(name.startswith(f"{section}.") for name in self.values)

    def put(self, path: str, value: Any) -> None:
        """Sets a value of the configuration.

        Args:
            path: Dotted keys of the configuration.
            value: What it shall be.
        """
        put(self.configuration, path, value)

    def get(self, path: str, default: Any = None) -> Any:
        """A value of the configuration as it is now.

        Args:
            path: Dotted keys of the configuration.
            default: What is returned where there is none.
        """
        return get(self.configuration, path, default)

    def refuse(self, name: str, must: str) -> None:
        """Notes a problem with a key that is given.

        Args:
            name: The dotted key.
            must: What it would have to be, and why.
        """
        self.problems.append(f"{name} must be {must}, got {self.values[name]!r}")

    def pass_on(self, keys: Sequence[Key]) -> None:
        """Puts the values of keys that go into the configuration as they are.

        Args:
            keys: Keys of the job, of which those without a `path` are left alone.
        """
        for key in keys:
            if key.path and key.name in self.values:
                self.put(key.path, self.values[key.name])

    def put_layers(self) -> None:
        """Puts the layers that an adapter is on."""
        layers = self.given("training.lora.target_modules")
        if isinstance(layers, str) and layers != "all-linear":
            layers = [layers]
        if layers is not None:
            if isinstance(layers, list) and "all-linear" in layers:
                self.refuse("training.lora.target_modules", "'all-linear' by itself, or names of layers")
            self.put("model.init_args.lora.target_modules", layers)

    def add_callbacks(self, *callbacks: Mapping[str, Any]) -> None:
        """Adds callbacks to those of the configuration.

        Args:
            *callbacks: A `class_path` and `init_args` each.
        """
        self.put("trainer.callbacks", [*self.get("trainer.callbacks", []), *map(dict, callbacks)])
