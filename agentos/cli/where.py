"""Which registry a command is about.

In this order: `--db`, `AGENTOS_DB`, `db` in `agentos.toml` or in `[tool.agentos]` of `pyproject.toml`, in this folder or the
nearest one above that says it, and `store/registry.sqlite` below the current directory. Nothing is opened or created here.
"""

from __future__ import annotations

import os

from agentos._text import shown
from agentos.errors import InvalidInputError, StoreUnavailableError

VARIABLE = "AGENTOS_DB"
DEFAULT = os.path.join("store", "registry.sqlite")
# In each folder the first that says it.
_FILES = {"agentos.toml": (), "pyproject.toml": ("tool", "agentos")}


def registry_path(given: str | None) -> str:
    """The path of the registry's file, as it is given, or absolute if a file of settings says it.

    Raises:
        InvalidInputError: an empty one is given. A variable that is not set must not mean another registry.
    """
    if given == "":
        raise InvalidInputError("--db must be the path of the registry, found nothing", hint="leave --db out, or name the file")
    return given or os.environ.get(VARIABLE) or _configured() or DEFAULT


def absolute_registry(given: str | None) -> str:
    """The same, absolute."""
    path = registry_path(given)
    return path if os.path.isabs(path) else os.path.join(_here(), path)


def existing(given: str | None) -> str:
    """The same, of a registry that must be there: what asks or acts upon it creates none."""
    path = absolute_registry(given)
    # An empty file is a database to SQLite, and would be made a registry by whoever looks.
    is_empty = os.path.isfile(path) and os.path.getsize(path) == 0
    if is_empty or not os.path.lexists(path):
        raise StoreUnavailableError(
            f"{shown(path)}: no registry here{': the file is empty' if is_empty else ''}",
            hint=f"go to the project's folder, name the file with --db or {VARIABLE}, or `agentos migrate` creates it",
        )
    return path


def _configured() -> str | None:
    folder = _here()
    while True:
        for name, section in _FILES.items():
            found = _in_file(os.path.join(folder, name), section)
            if found is not None:
                return os.path.join(folder, found)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise InvalidInputError(
            "the current directory is not there any more", hint="go to a folder that is, or name the file with --db"
        ) from error


def _in_file(path: str, section: tuple[str, ...]) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if section and b"agentos" not in data:
        # Most projects' settings are not about us, and reading them in full takes longer than looking.
        return None
    found = _parsed(path, data)
    for name in section:
        found = found.get(name, {}) if isinstance(found, dict) else {}
    value = found.get("db") if isinstance(found, dict) else None
    if value is None or (isinstance(value, str) and value):
        return value
    raise InvalidInputError(f"{shown(path)}: db must be the path of the registry, found {shown(value, 60)}")


def _parsed(path: str, data: bytes) -> object:
    import tomllib  # noqa: PLC0415 - only a project with settings of ours pays for it

    try:
        return tomllib.loads(data.decode())
    except ValueError as error:
        raise InvalidInputError(f"{shown(path)}: no valid TOML: {shown(str(error), 200)}") from error
