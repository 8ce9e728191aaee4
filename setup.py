"""What `pyproject.toml` cannot say: `configs/` is in the package as `synthstats_lightning/configs/`."""

from setuptools import find_namespace_packages, setup

CONFIGS = "synthstats_lightning.configs"

setup(
    packages=[
        *find_namespace_packages(include=["synthstats_lightning*"]),
        CONFIGS,
        *(f"{CONFIGS}.{room}" for room in find_namespace_packages("configs")),
    ],
    package_dir={CONFIGS: "configs"},
)
