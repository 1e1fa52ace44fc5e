"""Programs that run on the host, taken apart for tests."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

ROLES = Path(__file__).parents[2] / "roles"

# Methods and functions that came after Python 3.8, which a host may still have.
NEWER = {"removeprefix", "removesuffix", "is_relative_to", "bit_count", "pairwise", "randbytes", "to_thread", "batched"}

# What only Python 3.9 takes in brackets; in an annotation nobody evaluates it.
GENERIC = {
    "dict",
    "list",
    "tuple",
    "set",
    "frozenset",
    "type",
    "Callable",
    "Iterator",
    "Iterable",
    "Sequence",
    "Mapping",
}


def definitions(file: str) -> ModuleType:
    """The module without what it does as a program: imports, names, functions and classes."""
    path = ROLES / file
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [node for node in tree.body if not isinstance(node, ast.Expr | ast.Try | ast.If)]
    module = ModuleType(path.stem)
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


def assert_old_python_can_run(text: str) -> None:
    """Syntax of Python 3.8, and none of the newer methods."""
    tree = ast.parse(text, feature_version=(3, 8))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not names & NEWER
    assert not [node for node in ast.walk(tree) if node.__class__.__name__ in ("Match", "TryStar")]
    first = tree.body[1] if ast.get_docstring(tree) else tree.body[0]
    assert not evaluated_generics(tree)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "strict"], "3.10"
    assert ast.unparse(first) == "from __future__ import annotations", "or dict[str, Any] is evaluated"


def evaluated_generics(tree: ast.Module) -> list[str]:
    """`dict[str, Any]` and its kin where Python runs them: outside annotations, and what only type checkers see."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        unseen = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            unseen += node.body
        skipped.update(inner for one in unseen if isinstance(one, ast.AST) for inner in ast.walk(one))
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if node not in skipped and isinstance(node, ast.Subscript) and ast.unparse(node.value) in GENERIC
    ]
