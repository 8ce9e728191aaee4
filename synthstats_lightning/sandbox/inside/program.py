"""Running one program: parse, execute, extract, report. Only ever in a process that is thrown away."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox.inside.entry import Recorder, find_model
from synthstats_lightning.sandbox.inside.namespace import columns_of, module_for
from synthstats_lightning.sandbox.inside.response import FILENAME
from synthstats_lightning.sandbox.inside.stubs import INSTEAD, NO_ARGUMENT, NO_VALUE
from synthstats_lightning.sandbox.inside.words import refuse_unmet
from synthstats_lightning.sandbox.messages import one_line
from synthstats_lightning.sandbox.protocol import Job

OF_SHAPES = "The `shape` parameter must be"
"""How PyMC refuses a number of NumPy's, such as `group.max() + 1`, as a shape."""


def run(job: Job, output_bytes: int) -> bytes:
    """Runs a program.

    Args:
        job: The program and what it is built for.
        output_bytes: Bytes of the largest result.

    Returns:
        One JSON document: the model graph, an empty object for a program that is only run, or
        `{"failure": category, "message": line}`.
    """
    try:
        document = json.dumps(_run(job), allow_nan=False, separators=(",", ":")).encode()
        if len(document) > output_bytes:
            raise ProgramFailure(
                FailureCategory.OUTPUT, f"a model graph of {len(document)} bytes, more than {output_bytes}"
            )
    except ProgramFailure as failure:
        return _report(failure.category, failure.message)
    except MemoryError:
        return _report(FailureCategory.MEMORY, "the address-space limit was reached")
    except BaseException as error:
        return _report(FailureCategory.RAISED, describe(error))
    return document


def _run(job: Job) -> dict[str, Any]:
    code = parse(job.source)
    columns = columns_of(job)
    num_rows = 0 if job.schema is None else job.schema.num_rows
    module = module_for(columns, num_rows, {} if job.schema is None else job.schema.own_names)
    # dataclasses, pickling and typing look a class's module up
    sys.modules["__main__"] = module
    with Recorder() as recorder:
        try:
            exec(code, module.__dict__)  # noqa: S102 - the purpose of this process
        except SystemExit as error:
            # a script that ends with sys.exit() or sys.exit(0) ended well
            if error.code not in (None, 0):
                raise
        if job.schema is None or not job.build:
            return {}
        model = find_model(module, columns, num_rows, recorder)
    if job.schema.words:
        levels = {str(level) for view in job.schema.views.values() for level in view.levels}
        refuse_unmet(job.source, job.schema.words, levels | set(job.schema.response_levels))
    from synthstats_lightning.sandbox.inside.extraction.model import extract_graph

    return extract_graph(model, job.schema, job.covariates)


def parse(source: str) -> types.CodeType:
    """Compiles a program.

    Raises:
        ProgramFailure: `SYNTAX` if it is not Python, or too deep or large for the parser.
    """
    try:
        return compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ProgramFailure(FailureCategory.SYNTAX, f"line {error.lineno}: {error.msg}") from None
    except (MemoryError, RecursionError, OverflowError):
        raise ProgramFailure(FailureCategory.SYNTAX, "too deeply nested to parse") from None
    except ValueError as error:
        raise ProgramFailure(FailureCategory.SYNTAX, str(error)) from None


def describe(error: BaseException) -> str:
    """An exception in one line: where in the program, its type and its message."""
    line = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == FILENAME:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    try:
        text = str(error)
    except BaseException:
        text = "(an exception whose text raises)"
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in INSTEAD:
        text = f"{text}; {INSTEAD[str(error.name).partition('.')[0]]}"
    elif text.endswith(f"unexpected keyword argument '{NO_ARGUMENT}'"):
        text = NO_VALUE
    elif text.startswith(OF_SHAPES):
        text = f"{OF_SHAPES} a Python number, a tuple or a list: write int(...) around what NumPy computes"
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {text[:2000]}"


def _report(category: FailureCategory, message: str) -> bytes:
    return json.dumps({"failure": str(category), "message": one_line(message)}).encode()
