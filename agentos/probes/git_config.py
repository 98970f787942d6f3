"""Read the settings of a repository strictly, and refuse those that let a repository run programs or speak for other files.

Whoever may write into a repository may write its settings. Git never reads them here (see `git_view.py`): what this page does
not understand cannot be understood otherwise by git later. Known by heart are the few that decide whether a file is as
committed; all others are none of our business.
"""

from __future__ import annotations

import os
import re

from agentos._text import shown
from agentos.probes.cannot_see import CannotSee
from agentos.probes.git_repository import Repository, damaged, unsupported

Settings = dict[str, str]

_MOST = 1 << 20
# Nothing that was matched is given back: whoever writes a line of a million blanks does not hold anybody up.
_BLANK = re.compile(r"(?:\s|[#;][^\n]*+)++")
_SECTION = re.compile(r'\[([A-Za-z0-9.-]++)(?:[ \t]++"((?:[^"\\\n]|\\.)*+)")?\]')
_PIECE = r'[^"\\\n]|\\[ntb"\\]|\\\n'
_SETTING = re.compile(
    rf'([A-Za-z][A-Za-z0-9-]*+)[ \t]*+(?:(=)[ \t]*+((?:(?![#;])(?:{_PIECE})|"(?:{_PIECE})*+")*+))?+(?:[#;][^\n]*+)?(?:\n|\Z)'
)
_ESCAPED = re.compile(r'\\(.)|"', re.DOTALL)
_KEPT = re.compile(r"\\(.)")
_MEANT = {"n": "\n", "t": "\t", "b": "\b", "\n": ""}
# What starts programs when files are compared, or when others are asked for objects.
_RUNS = re.compile(
    r"filter\..*\.(clean|process)|core\.(sshcommand|gitproxy)|diff\.external|diff\..*\.(textconv|command)", re.DOTALL
)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")
# Which values are handed on, because they decide whether a file is as committed.
_HANDED_ON = {
    "core.filemode": (*_TRUE, *_FALSE),
    "core.symlinks": (*_TRUE, *_FALSE),
    "core.ignorecase": (*_TRUE, *_FALSE),
    "core.precomposeunicode": (*_TRUE, *_FALSE),
    "core.autocrlf": (*_TRUE, *_FALSE, "input"),
    "core.eol": ("lf", "crlf", "native"),
    "extensions.objectformat": ("sha1", "sha256"),
}
_EXTENSIONS = ("noop", "objectformat", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig")
_NEWEST = ("0", "1")


def settings_of(repository: Repository) -> Settings:
    """Those settings of the repository that decide whether a file is as committed.

    Raises:
        CannotSee: what it says cannot be read, or would run programs, or is not supported here.
    """
    found = _read(repository, "config", shared=True)
    if _is_true(found.get("extensions.worktreeconfig", "false")):
        found |= _read(repository, "config.worktree", shared=False)
    for name, value in found.items():
        _refuse_unsafe(repository, name, value)
    _refuse_unsupported(repository, found)
    handed_on = {name: found[name] for name in _HANDED_ON if name in found}
    for name, value in handed_on.items():
        if value.lower() not in _HANDED_ON[name]:
            raise damaged(f"{repository.shared.path}/config", f"{name} is {shown(repr(value), 60)}")
    return handed_on


def parsed(text: str) -> list[tuple[str, str]] | None:
    """Every setting and its value, in order; None if it is not all understood."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found: list[tuple[str, str]] = []
    section, at = None, 0
    while at < len(text):
        match = _BLANK.match(text, at)
        if match is None and (match := _SECTION.match(text, at)):
            below = "" if match[2] is None else "." + _KEPT.sub(r"\1", match[2])
            section = match[1].lower() + below
        elif match is None and section is not None and (match := _SETTING.match(text, at)):
            value = _unescaped(match[3]) if match[2] else "true"
            found.append((f"{section}.{match[1].lower()}", value))
        if match is None:
            return None
        at = match.end()
    return found


def _read(repository: Repository, name: str, *, shared: bool) -> Settings:
    folder = repository.shared if shared else repository.own
    said = folder.text(name, _MOST)
    found = [] if said is None else parsed(said.decode("utf-8", "surrogateescape")) if b"\0" not in said else None
    if found is None:
        raise damaged(f"{folder.path}/{name}", "holds what cannot be read as settings")
    # The last one counts, but one that runs programs is not hidden by another after it.
    settings: Settings = {}
    for key, value in found:
        _refuse_unsafe(repository, key, value)
        settings[key] = value
    return settings


def _unescaped(value: str) -> str:
    # A blank that is written between quotes is kept by git, and none of the values that count here has one.
    return _ESCAPED.sub(lambda match: "" if match[1] is None else _MEANT.get(match[1], match[1]), value).strip()


def _refuse_unsafe(repository: Repository, name: str, value: str) -> None:
    includes = name.startswith(("include.", "includeif."))
    watches = name == "core.fsmonitor" and value.lower() not in (*_TRUE, *_FALSE)
    if includes or watches or _RUNS.fullmatch(name):
        why = "takes settings from elsewhere" if includes else "runs a program"
        raise _unsafe(repository, f"{shown(name, 120)} in its settings {why}")
    if name == "core.worktree" and not _is_root(repository, value):
        raise _unsafe(repository, f"core.worktree in its settings names other files, {shown(value, 120)}")


def _is_root(repository: Repository, value: str) -> bool:
    return repository.root is not None and os.path.realpath(os.path.join(repository.own.path, value)) == repository.root.path


def _unsafe(repository: Repository, what: str) -> CannotSee:
    hint = "look who wrote that; settings of a user belong into ~/.gitconfig, where they do no harm to this look"
    return CannotSee("UNSAFE_REPO_CONFIG", f"{shown(repository.path)}: {what}", hint)


def _refuse_unsupported(repository: Repository, found: Settings) -> None:
    if _is_true(found.get("core.sparsecheckout", "false")):
        raise unsupported(
            repository, "only a part of its files is checked out", "`git sparse-checkout disable` checks out the rest"
        )
    if found.get("core.repositoryformatversion", "0") not in _NEWEST:
        raise unsupported(repository, "its format is newer than what is known here", "look at it with a newer agentos")
    for name, value in found.items():
        if name.startswith("extensions.") and name != "extensions.refstorage" and name[11:] not in _EXTENSIONS:
            raise unsupported(repository, f"{shown(name, 120)} is not known here", "look at it with a newer agentos")
        if name == "extensions.refstorage" and value != "files":
            hint = "`git refs migrate --ref-format=files` keeps them in files"
            raise unsupported(repository, "its refs are not kept in files", hint)


def _is_true(value: str) -> bool:
    return value.lower() not in _FALSE
