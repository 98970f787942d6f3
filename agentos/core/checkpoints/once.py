"""Do something at most once, whatever crashes: a note that it is about to happen is durable before it does.

(1) the note is stored, (2) the thing is done, (3) what came of it is stored. A crash between (1) and (3) leaves the note
pending, and it is never done again on a guess: looking settles it if the caller said what to look for, a person's word
otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints import codec, records
from agentos.core.checkpoints.holders import described, is_alive, new_holder
from agentos.core.checkpoints.interrupted import Settling, settle
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.looking import Looking
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.stored import StoredCall
from agentos.errors import (
    InvalidInputError,
    NotInterruptedError,
    NotPerformed,
    OnceConflictError,
    OncePendingError,
    SnapshotError,
    StoreError,
)

LANDED, NOT_LANDED = "landed", "not_landed"
_PENDING, _DONE = "pending", "done"
# The calls that are under way in this process; a pending one of ours that is not among them was interrupted.
_under_way: set[str] = set()


def compute_request_hash(request: Any) -> str:
    """SHA-256 over the request as JSON: the same in every process, whatever the order of keys.

    Raises:
        SnapshotError: JSON cannot carry it; names the path.
    """
    plain = codec.decode(codec.encode(request, "request"))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def perform(
    parts: Parts,
    key: str,
    request: Any,
    fn: Callable[[], Any],
    *,
    task_id: str | None,
    expected: tuple[bytes, bytes] | None,
    lease: Lease | None,
) -> Any:
    """Call `fn` unless this was done before; what came of it, then or now."""
    if not callable(fn):
        raise InvalidInputError(f"fn must be something to call, found {shown(fn, 80)}")
    expects, baseline = expected or (None, None)
    call = StoredCall(
        key,
        task_id,
        compute_request_hash(request),
        _PENDING,
        None,
        expects,
        baseline,
        str(parts.verifier.base_path),
        new_holder(),
        datetime.now(UTC).isoformat(),
    )
    with _announced(call.runner):
        there = parts.registry.begin_once(call, lease)  # (1)
        if there is None:
            return _call(parts, call, fn)
    if there.request_hash != call.request_hash:
        raise OnceConflictError(
            f"key {shown(key, 80)}: used for another request before; nothing was done",
            hint="a key names one request: give this one a key of its own",
            key=key,
        )
    if there.state == _DONE:
        return _result(there)
    return _settle(parts, there, fn)


@contextmanager
def _announced(runner: str | None) -> Iterator[None]:
    """Known to this process's other threads as under way, from before it is noted until what came of it is stored."""
    assert runner is not None, "a call that is made has a runner"
    _under_way.add(runner)
    try:
        yield
    finally:
        _under_way.discard(runner)


def _call(parts: Parts, call: StoredCall, fn: Callable[[], Any]) -> Any:
    runner, maker = call.runner, os.getpid()
    try:
        result = fn()  # (2)
    except BaseException as error:
        if os.getpid() == maker and isinstance(error, NotPerformed):
            parts.registry.forget_once(call.key)
        elif os.getpid() == maker:
            # It may have happened all the same.
            parts.registry.end_once(replace(call, runner=None), runner)
        raise
    if os.getpid() != maker:
        raise OncePendingError(
            f"key {shown(call.key, 80)}: forked while it was done; what came of it is for the parent to store",
            hint="end the child inside fn, with os._exit()",
            key=call.key,
        )
    done = replace(call, state=_DONE, result=_encoded(parts, call, result), runner=None)
    try:
        stored = parts.registry.end_once(done, runner)  # (3)
    except StoreError as error:
        raise OncePendingError(
            f"key {shown(call.key, 80)}: it was done, and what came of it could not be stored: {error.message}",
            hint=f"resolve_once({call.key!r}, 'landed', result=…) settles it; calling it again will not do it twice",
            key=call.key,
        ) from error
    if not stored:
        raise OncePendingError(
            f"key {shown(call.key, 80)}: done, but somebody settled it meanwhile, and what came of it is not stored",
            hint="look at what was settled: it may be done twice",
            key=call.key,
        )
    return _result(done)


def _encoded(parts: Parts, call: StoredCall, result: Any) -> bytes:
    try:
        return codec.encode({"value": result}, "result")
    except SnapshotError as error:
        parts.registry.end_once(replace(call, runner=None), call.runner)
        raise SnapshotError(
            f"{error.message}; it was done, and what came of it cannot be stored",
            hint=f"resolve_once({call.key!r}, 'landed', result=…) settles it; let fn return JSON",
        ) from error


def _result(call: StoredCall) -> Any:
    return codec.decode(call.result or b'{"value":null}')["value"]


def _settle(parts: Parts, there: StoredCall, fn: Callable[[], Any]) -> Any:
    """A call that was begun and has no end: look whether it happened, or refuse."""
    if _is_under_way(there):
        raise OncePendingError(
            f"key {shown(there.key, 80)}: {described(there.runner)} is doing it since {there.created_at}",
            hint=(
                "wait for it and ask again"
                if is_alive(there.runner)
                else f"if that container is gone: find out whether it happened, then resolve_once({there.key!r}, …)"
            ),
            key=there.key,
            running=True,
        )
    settling, reason = _seen(parts, there)
    if settling is Settling.ADOPT:
        done = replace(there, state=_DONE, result=codec.encode({"value": None}), runner=None)
        parts.registry.end_once(done, there.runner)
        return None
    if settling is Settling.RETRY:
        mine = replace(there, runner=new_holder())
        with _announced(mine.runner):
            if parts.registry.end_once(mine, there.runner):
                return _call(parts, mine, fn)
        reason = "somebody else is settling it"
    raise OncePendingError(
        f"key {shown(there.key, 80)}: begun at {there.created_at} and never ended: {reason}",
        hint=f"find out whether it happened, then resolve_once({there.key!r}, 'landed' or 'not_landed')",
        key=there.key,
        running=False,
    )


def _is_under_way(call: StoredCall) -> bool:
    if call.runner is None:
        return False
    # What cannot be seen from here may well be under way.
    return call.runner in _under_way or (is_alive(call.runner) is not False and not _is_ours(call.runner))


def _is_ours(runner: str) -> bool:
    return runner.rpartition("@")[2] == new_holder("").rpartition("@")[2]


def _seen(parts: Parts, call: StoredCall) -> tuple[Settling, str]:
    if call.expects is None:
        return settle([], holds=False, rerunnable=False)
    around = parts.around(None if parts.moved else call.base_path, lambda: None)
    # Whoever did it crashed: what is seen and then believed must not be lost to a power cut.
    parts.sync_files(records.decode_pack(call.expects), around, datetime.fromisoformat(call.created_at))
    return Looking(parts.verifier).settled(call.expects, call.baseline or b"", around, rerunnable=False)


def resolve(parts: Parts, key: str, outcome: str, result: Any) -> None:
    """A person's word on a pending call."""
    if type(outcome) is not str or outcome not in (LANDED, NOT_LANDED):
        raise InvalidInputError(f"outcome must be {LANDED!r} or {NOT_LANDED!r}, found {shown(outcome, 60)}")
    there = parts.registry.once(key)
    if there is None:
        raise NotInterruptedError(f"key {shown(key, 80)}: nothing was begun under it", hint="once() begins it")
    if there.state == _DONE and outcome == LANDED:
        return
    # A person may speak for what cannot be seen from here, but not for what is seen to go on.
    if there.state == _DONE or (_is_under_way(there) and is_alive(there.runner)):
        state = "done" if there.state == _DONE else f"under way in {described(there.runner)}"
        raise NotInterruptedError(
            f"key {shown(key, 80)}: {state}, so it cannot be called {outcome}", hint="nothing was changed"
        )
    if outcome == NOT_LANDED:
        parts.registry.forget_once(key)
        return
    done = replace(there, state=_DONE, result=codec.encode({"value": result}, "result"), runner=None)
    parts.registry.end_once(done, there.runner)
