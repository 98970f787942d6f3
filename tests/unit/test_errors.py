"""One tree of errors: each says what happened and what to do, tells a program the same, and travels between processes."""

import copy
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from agentos import errors
from agentos.errors import AgentosError, CheckpointError

EVERY = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, AgentosError)]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_tree_and_has_a_sentence(kind: type[AgentosError]):
    """All of them descend from AgentosError, all but the root from CheckpointError, and each docstring says what it means."""
    assert issubclass(kind, AgentosError)
    assert kind is AgentosError or issubclass(kind, CheckpointError)
    assert kind.__doc__
    assert kind.__doc__.strip().endswith(".")


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_and_copying(kind: type[AgentosError]):
    """Type, message, hint and details arrive whole in another process."""
    error = kind("registry.sqlite: gone", hint="look for it", path="registry.sqlite", numbers=[1, 2], nested={"a": None})
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert kind is type(again)
        assert (error.message, error.hint, str(error), error.diagnostics(), error.args) == (
            again.message,
            again.hint,
            str(again),
            again.diagnostics(),
            again.args,
        )


def test_the_text_has_the_hint_apart():
    """Message first; the remedy on a line of its own, and nothing when there is none."""
    assert "a.txt: gone\n  -> put it back" == str(CheckpointError("a.txt: gone", hint="put it back"))
    assert "a.txt: gone" == str(CheckpointError("a.txt: gone"))


def test_diagnostics_are_for_programs():
    """Type, message, hint and every detail by name."""
    error = errors.SchemaTooNewError("too new", hint="upgrade", found=31, known=30)
    assert {
        "error": "SchemaTooNewError",
        "message": "too new",
        "hint": "upgrade",
        "found": 31,
        "known": 30,
    } == error.diagnostics()


def test_diagnostics_are_a_copy():
    """What a program does to them does not change the error."""
    error = CheckpointError("gone", path="a")
    error.diagnostics()["path"] = "b"
    assert "a" == error.diagnostics()["path"]


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.InvalidInputError, ValueError),
        (errors.SnapshotError, ValueError),
        (errors.EvidenceDefinitionError, ValueError),
        (errors.CheckpointNotFoundError, LookupError),
        (errors.StepNotFoundError, LookupError),
    ],
)
def test_errors_are_what_python_would_call_them_too(kind: type[AgentosError], builtin: type[Exception]):
    """Code that knows nothing of agentos catches bad values and missing things as usual."""
    assert issubclass(kind, builtin)


def test_stores_can_be_caught_as_one():
    """Everything about the registry itself is a StoreError, migrations included."""
    store = {each.__name__ for each in EVERY if issubclass(each, errors.StoreError)}
    assert {"StoreBusyError", "StoreCorruptError", "StoreReplacedError", "OutcomeUnknownError", "SchemaTooNewError"} <= store


def raise_in_another_process() -> None:
    raise errors.EvidenceMismatchError("a.txt: differs", hint="put it back", reasons=["a.txt: differs"])


def test_an_error_raised_in_a_worker_process_arrives_whole():
    """A pool of processes hands the same error to its caller."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(errors.EvidenceMismatchError) as error:
        pool.submit(_call, "tests.unit.test_errors", "raise_in_another_process").result(60)
    assert (["a.txt: differs"], "put it back") == (error.value.diagnostics()["reasons"], error.value.hint)


def _call(module: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(module), name)()
