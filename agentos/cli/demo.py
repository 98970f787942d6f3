"""`agentos demo`: a real agent process, two real SIGKILLs, a real tampered file, and a resume from what can be proven."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from agentos.cli.demo_agent import ITEMS, LETTER, MOMENTS
from agentos.cli.marks import bold, dim, fancy, mark_of

_TAMPERED, _HALF_WRITTEN = "draft", "figures"


@click.command("demo")
def command() -> None:
    """Watch an agent die, be tampered with, and resume from what can be proven. Takes seconds, leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="agentos-demo-") as scratch:
        folder = Path(scratch)
        click.echo(
            bold("1. An agent writes a report, one chapter a step; one step sends a letter, which must not happen twice")
        )
        _run_until_killed(folder, LETTER)
        click.echo(bold("\n2. A new process resumes: the letter is there, so that step counts as done"))
        _run_until_killed(folder, _HALF_WRITTEN)
        click.echo(bold("\n3. While nobody looks, a finished chapter is changed"))
        _tamper(folder / f"{_TAMPERED}.md")
        click.echo(bold("\n4. A new process resumes: it measures first, believes no stored flag, and walks back to what holds"))
        finished = subprocess.run([*_agent(folder)], check=False).returncode
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


def _tamper(path: Path) -> None:
    path.write_text(path.read_text().replace("found", "invented", 1))
    click.echo(f"  {mark_of('event')} {path.name}: one word changed, nobody recorded it")


def _outcome(finished: int, folder: Path) -> None:
    written = sorted(path.name for path in folder.glob("*.md"))
    good = finished == 0 and len(written) == len(ITEMS) and "invented" not in (folder / f"{_TAMPERED}.md").read_text()
    if not good:
        raise click.ClickException("the demonstration went wrong; this is a bug in agentos")
    click.echo(bold("\nThe tampered chapter was refused and written again; the letter was sent once."))
    click.echo(dim("Nothing was resumed from a lie. Next: README.md shows the few lines of code behind this."))
