"""What can be done next, said once and shown in two languages: as a call of the library, and as a command that is typed.

A hint or an option is text to everybody, in the library's words. The command line finds in it what is to be done, by name, and
says it in its own. Every way here is one that a verb of the command line can go: its tests parse them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from agentos._text import shown

_REASON = ("--reason", "…")


class Command(NamedTuple):
    """A verb of the command line, the names it is about, and what is to be said with it."""

    verb: str
    names: tuple[str, ...]
    options: tuple[str, ...]


class Act(NamedTuple):
    """Something that can be done: the call that does it, and the commands that do; several are choices."""

    call: str
    commands: tuple[Command, ...]


class Way(str):
    """A sentence that names what can be done. As text it is in the library's words."""

    __slots__ = ("parts",)
    parts: tuple[str | Act, ...]

    def __new__(cls, *parts: str | Act) -> Self:
        way = super().__new__(cls, "".join(part if isinstance(part, str) else part.call for part in parts))
        way.parts = parts
        return way

    def said(self, say: Callable[[Act], str]) -> str:
        """The same sentence with every act said in another language."""
        return "".join(part if isinstance(part, str) else say(part) for part in self.parts)


def joined(before: str, between: str, ways: Iterable[str]) -> Way:
    """Several in one sentence."""
    parts: list[str | Act] = [before]
    for number, way in enumerate(ways):
        parts += [between] * bool(number)
        parts += way.parts if isinstance(way, Way) else [way]
    return Way(*parts)


def recover(task_id: str) -> Act:
    """Look where it may resume."""
    return _act(f"recover({_quoted(task_id)})", Command("recover", (task_id,), ()))


def resume(task_id: str, *, repair: bool = False, wait: bool = False) -> Act:
    """Go on."""
    more = ", repair=True" if repair else ", wait=seconds" if wait else ""
    options = ("--repair",) if repair else ("--wait", "SECONDS") if wait else ()
    return _act(f"resume({_quoted(task_id)}, default{more})", Command("resume", (task_id,), options))


def accept(task_id: str) -> Act:
    """Take the world as it is."""
    return _act(f"accept({_quoted(task_id)}, by=…, reason=…)", Command("accept", (task_id,), _REASON))


def restart(task_id: str) -> Act:
    """Start over."""
    return _act(f"restart({_quoted(task_id)}, by=…, reason=…)", Command("restart", (task_id,), _REASON))


def reopen(task_id: str) -> Act:
    """Let a finished task take steps again."""
    return _act(f"reopen({_quoted(task_id)}, by=…, reason=…)", Command("reopen", (task_id,), _REASON))


def free(task_id: str) -> Act:
    """Take the task from a holder that is gone."""
    return _act(f"free_task({_quoted(task_id)}, by=…, reason=…)", Command("free", (task_id,), _REASON))


def resolve(step_id: str) -> Act:
    """Say whether a step landed."""
    landed, not_landed = (Command("resolve", (step_id, word), _REASON) for word in ("landed", "not-landed"))
    return _act(f"resolve_step({_quoted(step_id)}, 'landed' or 'not_landed', by=…, reason=…)", landed, not_landed)


def abandon(step_id: str) -> Act:
    """Say that a step did not land, whatever its process does."""
    return _act(f"abandon_step({_quoted(step_id)})", Command("resolve", (step_id, "not-landed"), _REASON))


def undo(restore_id: str) -> Act:
    """Take a restore back."""
    return _act(f"undo_restore({_quoted(restore_id)})", Command("undo", (restore_id,), ()))


def rollback(checkpoint_id: str) -> Act:
    """The snapshot of a checkpoint, if it holds."""
    return _act(f"rollback_to_checkpoint({_quoted(checkpoint_id)})", Command("rollback", (checkpoint_id,), ()))


def _act(call: str, *commands: Command) -> Act:
    return Act(f"manager.{call}", commands)


def _quoted(name: str) -> str:
    return shown(repr(name), 120)
