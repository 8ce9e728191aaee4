"""A check that only reads source code, as sandboxes for generated programs commonly have: for comparison."""

from __future__ import annotations

import ast

MODULES = {
    "pymc",
    "numpy",
    "arviz",
    "pandas",
    "scipy",
    "math",
    "pytensor",
    "random",
    "datetime",
    "re",
    "functools",
}
MODULES |= {"collections", "itertools", "operator", "typing", "dataclasses", "warnings", "xarray", "codecs"}
CALLS = {"eval", "exec", "open", "compile", "__import__", "input", "breakpoint", "globals", "vars", "getattr"}
METHODS = {"system", "popen", "open", "load", "save", "savetxt", "loadtxt", "fromfile", "tofile", "read_csv"}


def passes_reading(source: str) -> bool:
    """Whether a check of imports, names of called functions and double underscores lets a program through."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_harmless(node) for node in ast.walk(tree))


def _harmless(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(name.name.partition(".")[0] in MODULES for name in names)
        case ast.ImportFrom(module=module):
            return (module or "").partition(".")[0] in MODULES
        case ast.Call(func=ast.Name(id=name)):
            return name not in CALLS
        case ast.Call(func=ast.Attribute(attr=name)):
            return name not in METHODS and not name.startswith("__")
        case ast.Attribute(attr=name):
            return not name.startswith("__")
    return True
