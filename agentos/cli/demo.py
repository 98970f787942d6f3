"""`agentos demo`: a real agent process, two real SIGKILLs, a stranger's edit, and a resume that puts back what was proven."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from agentos.cli.demo_agent import ITEMS, LETTER, MOMENTS, NOTES, REPORT, TASK
from agentos.cli.door import Door
from agentos.cli.marks import bold, dim, fancy, mark_of
from agentos.cli.verb import verb
from agentos.core.checkpoints import CheckpointManager

SHAPE = {"story": "what it says without `--json`, line by line"}

_HALF_WRITTEN = "draft"
_STRANGERS = "Bring milk. And a stranger was here.\n"


@verb("demo", SHAPE)
def command(door: Door) -> None:
    """Watch an agent die twice, be meddled with, and resume from what can be proven.

    Takes seconds and leaves nothing behind; no registry of yours is looked at.
    """
    if door.as_json:
        # Its agents speak for themselves: so all of it is listened to.
        told = subprocess.run([sys.executable, "-m", "agentos", "demo"], stdout=subprocess.PIPE, text=True, check=False)
        if told.returncode:
            raise click.ClickException("the demonstration went wrong; this is a bug in agentos")
        door.answer({"story": told.stdout.splitlines()}, [])
        return
    _tell()


def _tell() -> None:
    with tempfile.TemporaryDirectory(prefix="agentos-demo-") as scratch:
        folder = Path(scratch)
        (folder / "work").mkdir()
        (folder / "work" / NOTES).write_text("Bring milk.\n")
        click.echo(bold("1. An agent writes a report; every step edits the same file"))
        _run_until_killed(folder, _HALF_WRITTEN)
        click.echo(bold("\n2. While nobody looks, a stranger edits another file"))
        (folder / "work" / NOTES).write_text(_STRANGERS)
        click.echo(f"  {mark_of('event')} {NOTES}: a sentence more, nobody recorded it")
        click.echo(bold("\n3. A new process resumes: what differs is put back, and what that overwrites is kept too"))
        _run_until_killed(folder, LETTER)
        click.echo(bold("\n4. Another one resumes: the letter must not be sent twice; it is there, so that step is done"))
        finished = subprocess.run([*_agent(folder)], check=False).returncode
        click.echo(bold("\n5. The stranger wants the sentence back"))
        _bring_back(folder)
        _outcome(finished, folder)


def _agent(folder: Path) -> list[str]:
    return [sys.executable, "-m", "agentos.cli.demo_agent", str(folder)]


def _run_until_killed(folder: Path, item: str) -> None:
    # The agent writes into a pipe, so that it can be killed at the right line; a terminal at the other end still wants marks.
    colour = {"FORCE_COLOR": "1"} if fancy() else {}
    command_line = [*_agent(folder), "--die-in", item]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, env={**os.environ, **colour}) as agent:
        assert agent.stdout is not None
        for line in agent.stdout:
            click.echo(line, nl=False)
            if any(words in line for words in MOMENTS):
                agent.send_signal(signal.SIGKILL)
        agent.wait()
    click.echo(f"  {mark_of('killed')} kill -9: process {agent.pid} is gone in the middle of a step")


def _bring_back(folder: Path) -> None:
    with CheckpointManager(folder / "registry.sqlite") as manager:
        [restored] = [each for each in manager.restores(TASK) if each.undoes is None]
        manager.restore(manager.plan_undo(restored.restore_id).only(NOTES))
        click.echo(f"  {mark_of('verified')} manager.restore(manager.plan_undo('{restored.restore_id}').only('{NOTES}'))")
    click.echo(f"  {mark_of('event')} {NOTES}: {(folder / 'work' / NOTES).read_text().strip()}")


def _outcome(finished: int, folder: Path) -> None:
    report = (folder / "work" / REPORT).read_text()
    chapters = [line.removeprefix("## ") for line in report.splitlines() if line.startswith("## ")]
    whole = report.count("\n") == 1 + len(chapters) * 42
    good = finished == 0 and whole and chapters == [item for item in ITEMS if item != LETTER]
    if not good or (folder / "work" / NOTES).read_text() != _STRANGERS:
        raise click.ClickException("the demonstration went wrong; this is a bug in agentos")
    click.echo(bold("\nThe report is whole, the letter was sent once, and no byte of the stranger's was lost."))
    click.echo(dim("Nothing was resumed from a lie. Next: README.md shows the few lines of code behind this."))
