"""The direction of imports: doors -> hands, memory, eyes -> rules.

The sources are read, not run, so a lazy import, one under TYPE_CHECKING and one through importlib count like any other.
What a room does with what it may import is not checked here.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "agentos"

ROOMS = {
    "core": "rules",
    "probes": "eyes",
    "store": "memory",
    "vault": "hands",
    **dict.fromkeys(("flow", "cli", "integrations", "web", "testing", "__main__"), "doors"),
    "errors": "shared",
    "wiring": "wiring",
}

# Who may import whom. A pair that is missing is refused.
MAY_IMPORT = {
    "shared": {"shared"},
    "rules": {"rules", "shared"},
    "eyes": {"eyes", "rules", "shared"},
    "memory": {"memory", "rules", "shared"},
    "hands": {"hands", "rules", "shared"},
    "doors": {"doors", "hands", "memory", "eyes", "rules", "shared", "wiring", "root"},
    "wiring": {"hands", "memory", "eyes", "rules", "shared", "doors", "wiring", "root"},
    "root": {"doors", "hands", "memory", "eyes", "rules", "shared", "wiring", "root"},
}

# The contract's constructors take a path and no parts, so these three ask for them when they are called.
MAY_ASK_WIRING = {f"agentos.core.checkpoints.{name}" for name in ("manager", "verifier", "capturing")}

# Rules take observations. What looks at the world by itself has no place in them.
OUTSIDE_WORLD = {"sqlite3", "sqlite_utils", "psycopg", "socket", "subprocess", "urllib", "http", "httpx", "requests"}
FILE_CALLS = {"read_text", "read_bytes", "write_text", "write_bytes"}


@dataclass(frozen=True)
class Import:
    target: str
    line: int
    lazy: bool


def room_of(module: str) -> str:
    """Return the room of a module of agentos; an empty string if it is in none."""
    parts = module.split(".")
    if len(parts) == 1:
        return "root"
    if parts[1].startswith("_") and not parts[1].startswith("__"):
        return "shared"
    return ROOMS.get(parts[1], "")


def imports_of(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[Import]:
    for node, lazy in walk(tree, lazy=False):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, node.lineno, lazy)
        elif isinstance(node, ast.ImportFrom):
            for target in from_targets(node, module, is_package=is_package):
                yield Import(target, node.lineno, lazy)
        elif isinstance(node, ast.Call) and (called := imported_by_call(node)):
            yield Import(called, node.lineno, lazy)


def walk(node: ast.AST, *, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node, and whether it runs only when a function is called."""
    for child in ast.iter_child_nodes(node):
        inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, inside
        yield from walk(child, lazy=inside)


def from_targets(node: ast.ImportFrom, module: str, *, is_package: bool) -> list[str]:
    base = node.module or ""
    if node.level:
        above = module.split(".")
        above = above[: len(above) - node.level + is_package]
        base = ".".join([*above, base] if base else above)
    # `from agentos import wiring` names a module, `from agentos import Checkpoint` an object of the package itself.
    if base == "agentos":
        return [f"agentos.{name.name}" if room_of(f"agentos.{name.name}") else "agentos" for name in node.names]
    return [f"{base}.{name.name}" for name in node.names]


def imported_by_call(node: ast.Call) -> str:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in {"import_module", "__import__"} or not node.args:
        return ""
    name = node.args[0]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """List what a module does that its room may not, one sentence each."""
    room = room_of(module)
    if not room:
        return [f"{module}: belongs to no room"]
    tree = ast.parse(source)
    found = [
        f"{module}:{item.line}: {problem}"
        for item in imports_of(tree, module, is_package=is_package)
        if (problem := judged(item, module, room))
    ]
    return found + ([f"{module}:{line}: rules touch a file" for line in file_calls(tree)] if room == "rules" else [])


def judged(item: Import, module: str, room: str) -> str:
    top = item.target.partition(".")[0]
    if top != "agentos":
        return f"rules import {top}" if room == "rules" and top in OUTSIDE_WORLD else ""
    target = room_of(item.target)
    if not target:
        return f"{item.target} belongs to no room"
    if target == "wiring" and module in MAY_ASK_WIRING:
        return "" if item.lazy else "wiring is imported when the module is, not when it is needed"
    return "" if target in MAY_IMPORT[room] else f"{room} import {target} ({item.target})"


def file_calls(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = isinstance(node.func, ast.Name) and node.func.id == "open"
            method = isinstance(node.func, ast.Attribute) and node.func.attr in FILE_CALLS
            if named or method:
                yield node.lineno


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_imports_point_inwards():
    """No room of agentos knows one it should not; every module is in a room."""
    found = [
        problem
        for module, path in modules()
        for problem in violations(path.read_text("utf-8"), module, is_package=path.name == "__init__.py")
    ]
    assert [] == found


def test_the_package_was_read():
    """An empty list of problems means something only if there was something to read."""
    rooms = {room_of(module) for module, _ in modules()}
    assert {"rules", "eyes", "memory", "doors", "shared", "wiring"} <= rooms


MANAGER = "agentos.core.checkpoints.manager"
POLICY = "agentos.core.checkpoints.policy"

FORBIDDEN = {
    "rules import eyes": (POLICY, "import agentos.probes.files"),
    "rules import memory": (POLICY, "from agentos.store.registry import sqlite"),
    "rules import hands": (POLICY, "from agentos import vault"),
    "rules import doors": (POLICY, "from agentos.cli.main import main"),
    "rules import root": (POLICY, "from agentos import CheckpointManager"),
    "rules import wiring": (POLICY, "def f():\n    from agentos import wiring"),
    "wiring is imported when the module is": (MANAGER, "from agentos import wiring"),
    "rules import sqlite3": (POLICY, "import sqlite3"),
    "rules import socket": (POLICY, "def f():\n    import socket"),
    "rules import subprocess": (POLICY, "from subprocess import run"),
    "rules import urllib": (POLICY, "import urllib.request"),
    "rules import http": (POLICY, "from http import client"),
    "rules touch a file": (POLICY, "def f(path):\n    return path.read_bytes()"),
    "rules touch a file (builtin)": (POLICY, "with open('x') as f: pass"),
    "eyes import memory": ("agentos.probes.rows", "from agentos.store.registry import connect"),
    "eyes import hands": ("agentos.probes.files", "import agentos.vault.content"),
    "eyes import wiring": ("agentos.probes.files", "class A:\n    def f(self):\n        import agentos.wiring"),
    "memory import eyes": ("agentos.store.registry.sqlite", "from agentos.probes import files"),
    "memory import doors": ("agentos.store.runs", "from agentos.flow import graph"),
    "hands import memory": ("agentos.vault.restore", "import agentos.store"),
    "shared import rules": ("agentos._text", "from agentos.core.checkpoints import models"),
    "shared import doors": ("agentos.errors", "import agentos.cli.main"),
    "belongs to no room": ("agentos.helpers", "import json"),
    "agentos.helpers.x belongs to no room": ("agentos.cli.main", "import agentos.helpers.x"),
}


@pytest.mark.parametrize("problem", FORBIDDEN)
def test_a_planted_violation_is_found(problem):
    """Each kind of wrong import is reported, and named."""
    module, source = FORBIDDEN[problem]
    found = violations(source, module)
    assert 1 == len(found)
    assert problem.removesuffix(" (builtin)") in found[0]


DISGUISES = [
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agentos.store import registry",
    "try:\n    import agentos.store\nexcept ImportError:\n    pass",
    "class A:\n    from agentos.store import registry",
    "import importlib\ndef f():\n    return importlib.import_module('agentos.store.registry')",
    "x = __import__('agentos.store')",
    "from ...store import registry",
    "from ... import store",
    "f = lambda: __import__('agentos.store')",
]


@pytest.mark.parametrize("source", DISGUISES)
def test_a_disguised_import_is_found(source):
    """It does not matter how a room gets hold of another."""
    assert ["rules import memory"] == [said.split(": ")[1].split(" (")[0] for said in violations(source, POLICY)]


def test_a_relative_import_in_a_package_is_resolved_from_the_package():
    """In `__init__.py` one dot is the package itself, in a module its parent."""
    assert violations("from . import models", "agentos.core.checkpoints", is_package=True) == []
    assert violations("from ... import store", "agentos.core.checkpoints", is_package=True) != []


ALLOWED = [
    (MANAGER, "def f():\n    from agentos import wiring\n    import agentos.wiring"),
    ("agentos.core.checkpoints.capturing", "class A:\n    def f(self):\n        from agentos.wiring import probes"),
    (POLICY, "import json\nfrom pathlib import Path\nfrom agentos._text import shown\nfrom agentos import errors"),
    ("agentos.probes.files", "from agentos.core.checkpoints.models import Evidence\nimport os, socket"),
    ("agentos.store.registry.sqlite", "import sqlite3\nfrom agentos.errors import AgentosError"),
    ("agentos.cli.main", "from agentos import wiring, CheckpointManager\nimport agentos.vault"),
    ("agentos.wiring", "import agentos.probes, agentos.store, agentos.vault, agentos.core.checkpoints"),
    ("agentos", "from agentos.core.checkpoints import CheckpointManager\nfrom agentos import wiring"),
]


@pytest.mark.parametrize(("module", "source"), ALLOWED)
def test_what_the_rooms_may_do_is_not_reported(module, source):
    """A check that cries wolf gets switched off."""
    assert [] == violations(source, module)
