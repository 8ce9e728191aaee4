"""`synthstats-lightning serve --port NUMBER`: scores and episodes over HTTP."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.cli.task_argument import TASK_HELP, named_task
from synthstats_lightning.confinement import Level
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.sandbox import SandboxError, SandboxLimits
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.serving.http.settings import ServerSettings, listening_socket

NEEDED = ("fastapi", "pydantic", "uvicorn")


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_class_arguments(ServerSettings, instantiate=False)
    parser.add_argument(
        "--num_workers", type=int | None, default=None, help="programs that are scored at a time"
    )
    parser.add_argument(
        "--tasks", type=str, nargs="+", default=[], help=f"further tasks that requests can name: {TASK_HELP}"
    )
    parser.add_argument("--sandbox", type=Level, default="strict", help="how strictly programs are confined")
    parser.add_argument(
        "--score_cache", type=str | None, default=None, help="file of scores that outlives the server"
    )
    parser.add_class_arguments(SandboxLimits, "limits")
    parser.add_class_arguments(EngineSettings, "engine")


def run(options: Namespace) -> None:
    """Serves until SIGTERM or Ctrl-C.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Raises:
        SystemExit: With `WRONG_USAGE` for a missing extra, a port in use or a wrong argument; with `FAILED`
            if programs cannot be confined on this machine.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        fail(f"serve needs {', '.join(missing)}: pip install 'synthstats-lightning[serve]'")
    from synthstats_lightning.serving.http.server import public_warning, serve

    try:
        settings = ServerSettings(**{field.name: options[field.name] for field in fields(ServerSettings)})
        key = settings.key()
        tasks = [named_task(name) for name in options.tasks]
        folder = None if options.score_cache is None else Path(options.score_cache).parent
        if folder is not None and not folder.is_dir():
            raise ValueError(
                f"score_cache must be a file in a folder that there is, got {options.score_cache}"
            )
        scorer = ProgramScorer(
            options.num_workers,
            options.limits,
            options.engine,
            options.sandbox,
            options.score_cache,
            max_known=settings.known_scores,
        )
        # before the workers start, which takes seconds
        listener = listening_socket(settings)
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    if warning := public_warning(settings):
        print(warning, file=sys.stderr)
    try:
        scorer.start()
        asyncio.run(serve(scorer, settings, listener, tasks, key))
    except SandboxError as error:
        scorer.close()
        fail(str(error), FAILED)
    except ValueError as error:
        fail(str(error))
    finally:
        listener.close()
