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
    """Something that can be done: in words, the call that does it, and the commands that do; several are choices."""

    does: str
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
    return _act("looks again", f"recover({_quoted(task_id)})", Command("recover", (task_id,), ()))


def moved(task_id: str) -> Act:
    """Look where the workspace is now."""
    call = f"CheckpointManager(db_path, base_path).recover({_quoted(task_id)})"
    return Act("looks there", call, (Command("recover", (task_id,), ("--base", "PATH")),))


def resume(task_id: str) -> Act:
    """Go on."""
    does = "decides and stores that, and gives the state; an agent does so by itself when it starts"
    return _act(does, f"resume({_quoted(task_id)}, default)", Command("resume", (task_id,), ()))


def repair(task_id: str) -> Act:
    """Put back what differs, and go on."""
    does = "puts back what differs, and goes on; what that overwrites is kept"
    return _act(does, f"resume({_quoted(task_id)}, default, repair=True)", Command("resume", (task_id,), ("--repair",)))


def wait(task_id: str) -> Act:
    """Go on as soon as that is possible."""
    call = f"resume({_quoted(task_id)}, default, wait=seconds)"
    return _act("waits until it can go on", call, Command("resume", (task_id,), ("--wait", "SECONDS")))


def accept(task_id: str) -> Act:
    """Take the world as it is."""
    does = "takes what differs as it is now, if that is as it should be; give paths to take only those"
    return _act(does, f"accept({_quoted(task_id)}, by=…, reason=…)", Command("accept", (task_id,), _REASON))


def restart(task_id: str) -> Act:
    """Start over."""
    does = "starts the task over from nothing; its checkpoints are kept, and no file is touched"
    return _act(does, f"restart({_quoted(task_id)}, by=…, reason=…)", Command("restart", (task_id,), _REASON))


def reopen(task_id: str) -> Act:
    """Let a finished task take steps again."""
    does = "lets it take steps again"
    return _act(does, f"reopen({_quoted(task_id)}, by=…, reason=…)", Command("reopen", (task_id,), _REASON))


def free(task_id: str) -> Act:
    """Take the task from a holder that is gone."""
    does = "takes the task from it; what it still does changes nothing any more"
    return _act(does, f"free_task({_quoted(task_id)}, by=…, reason=…)", Command("free", (task_id,), _REASON))


def resolve(step_id: str) -> Act:
    """Say whether a step landed."""
    does = "find out whether the step had its effect, and say so: what landed does not run again"
    landed, not_landed = (Command("resolve", (step_id, word), _REASON) for word in ("landed", "not-landed"))
    call = f"resolve_step({_quoted(step_id)}, 'landed' or 'not_landed', by=…, reason=…)"
    return _act(does, call, landed, not_landed)


def abandon(step_id: str) -> Act:
    """Say that a step did not land, whatever its process does."""
    call = f"abandon_step({_quoted(step_id)})"
    return _act("gives the step up", call, Command("resolve", (step_id, "not-landed"), _REASON))


def log(task_id: str) -> Act:
    """What happened to the task."""
    return _act("shows what happened to it", f"list_checkpoints({_quoted(task_id)})", Command("log", (task_id,), ()))


def undo(restore_id: str) -> Act:
    """Take a restore back."""
    return _act("takes the restore back", f"undo_restore({_quoted(restore_id)})", Command("undo", (restore_id,), ()))


def rollback(checkpoint_id: str) -> Act:
    """The snapshot of a checkpoint, if it holds."""
    call = f"rollback_to_checkpoint({_quoted(checkpoint_id)})"
    return _act("gives its state, if it holds", call, Command("rollback", (checkpoint_id,), ()))


def _act(does: str, call: str, *commands: Command) -> Act:
    return Act(does, f"manager.{call}", commands)


def _quoted(name: str) -> str:
    return shown(repr(name), 120)
