"""What can be done, as it is typed: whatever is in a name, a shell reads it back; every act names a verb that takes it."""

import copy
import json
import pickle
import subprocess

import click
import pytest

from agentos import _ways
from agentos._ways import Command, Way, joined
from agentos.cli.main import agentos_command
from agentos.cli.typed import BASED, command_line, commands_of

HOSTILE = [
    "plain",
    "two words",
    "it's",
    '$HOME `id` "x"; rm -rf /',
    "-rf",
    "--json",
    "\x1b[31mred\x07",
    "new\nline\tand \\ back",
    "\u202egnp.exe",
    "naïve ☃",
    "",
]
ACTS = {
    "recover": _ways.recover("x"),
    "resume": _ways.resume("x"),
    "moved": _ways.moved("x"),
    "repair": _ways.repair("x"),
    "wait": _ways.wait("x"),
    "accept": _ways.accept("x"),
    "restart": _ways.restart("x"),
    "reopen": _ways.reopen("x"),
    "free": _ways.free("x"),
    "resolve": _ways.resolve("x"),
    "abandon": _ways.abandon("x"),
    "log": _ways.log("x"),
    "undo": _ways.undo("x"),
    "rollback": _ways.rollback("x"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_every_name_back(name: str):
    """And nothing that drives a terminal is in what is shown."""
    line = command_line(Command("recover", (name,), ("--deadline", "1")), f"/a b/{name}", name)
    assert line.isprintable()
    words = (
        subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
        .stdout.decode()
        .split("\0")[:-1]
    )
    assert "agentos" == words.pop(0)
    command = agentos_command.get_command(click.Context(agentos_command), words.pop(0))
    assert command is not None
    typed = command.make_context("recover", words).params
    assert (name, 1.0, f"/a b/{name}", name) == (typed["task_id"], typed["deadline"], typed["db"], typed["base"])


def test_every_way_is_one_that_a_verb_can_go():
    """Each act of the library's hints and options parses; none is forgotten here; and those that measure take --base."""
    public = {name for name in vars(_ways) if callable(vars(_ways)[name]) and name.islower() and not name.startswith("_")}
    assert set(ACTS) == public - {"joined", "shown"}
    for act in ACTS.values():
        for verb, names, options in act.commands:
            command = agentos_command.get_command(click.Context(agentos_command), verb)
            assert command is not None, verb
            said = ["1" if word == "SECONDS" else word.replace("…", "because") for word in options]
            command.make_context(verb, [*names, *said])
            assert (verb in BASED) is any(param.name == "base" for param in command.params)


def test_a_way_is_text_to_everybody_and_more_to_who_asks():
    """Equal to its words, as JSON its words, whole after pickle and copy; in a sentence of several too."""
    way = Way("put back what differs and call ", _ways.recover("t"), " again")
    assert "put back what differs and call manager.recover('t') again" == way
    assert json.dumps(way) == json.dumps(str(way))
    for again in (way, pickle.loads(pickle.dumps(way)), copy.deepcopy(way)):
        assert "put back what differs and call agentos recover t again" == again.said(commands_of)
    both = joined("either ", " or ", [way, "sleep"])
    assert "either put back what differs and call agentos recover t again or sleep" == both.said(commands_of)
