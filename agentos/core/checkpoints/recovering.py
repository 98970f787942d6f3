"""The part of the manager that answers "from where, and why": recover, resume, claims, once, the human's word, retention.

Thin: each call checks its arguments and hands on. What they need is imported when they are called, because most processes begin
and commit steps and never crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.identifiers import (
    check_id,
    check_lease,
    check_limit,
    check_optional_id,
    check_optional_words,
    check_ttl,
    check_type,
    check_words,
)
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.models import Checkpoint, EvidencePack
from agentos.errors import CheckpointError, InvalidInputError

if TYPE_CHECKING:
    from agentos.core.checkpoints.parts import Parts
    from agentos.core.checkpoints.ports import Registry
    from agentos.core.checkpoints.recovered import Recovery
    from agentos.core.checkpoints.retention import Pruned


class RecoveryCalls:
    """What a manager does around a crash."""

    _registry: Registry

    def recover(self, task_id: str, *, checkpoint_type: str | None = None, deadline: float | None = None) -> Recovery:
        """Find out from where the task may go on, and why not from newer checkpoints. Looks; changes nothing but its history.

        Args:
            checkpoint_type: only checkpoints of this type are wanted.
            deadline: seconds for all looks together; what was not looked at by then could not be checked.
        """
        resuming = _lazily("resuming")
        check_id("task_id", task_id)
        if checkpoint_type is not None:
            check_type(checkpoint_type)
        limit = _seconds("deadline", deadline)
        found: Recovery = resuming.look(self._parts(), task_id, checkpoint_type=checkpoint_type, deadline=limit).recovery
        return found

    def resume(
        self, task_id: str, default: Any, *, repair: bool = False, wait: float | None = None, lease: Lease | None = None
    ) -> Any:
        """The state to go on with, measured now; `default` if nothing was ever committed.

        What that takes, rolling back past newer checkpoints and adopting interrupted steps, is stored before this returns.

        Args:
            default: a dict, or a typed state (an instance, or its class): the state then comes back as that type.
            repair: put back what differs, where that is possible; whatever that overwrites is kept, see `undo_restore`.
            wait: seconds to wait for another holder, or for what cannot be checked.
            lease: the claim to do this under; without it the task is claimed for as long as this takes.

        Raises:
            NotSafeToResumeError: no state can be proven; its `recovery` says what differs and what can be done.
            EvidenceUnavailableError: what was found could not be made durable; nothing was decided.
        """
        wanted = self._wanted(task_id, default, repair=repair)
        return wanted.state(self.resume_report(task_id, repair=repair, wait=wait, lease=lease))

    def resume_report(
        self, task_id: str, *, repair: bool = False, wait: float | None = None, lease: Lease | None = None
    ) -> Recovery:
        """The same as a report: what was found, what was put back, and the snapshot to go on with."""
        resuming = _lazily("resuming")
        self._wanted(task_id, {}, repair=repair)
        answer = resuming.resume(self._parts(), task_id, wait=_seconds("wait", wait), lease=check_lease(lease), repair=repair)
        found: Recovery = answer.recovery
        return found

    def resume_held(
        self, task_id: str, default: Any, *, repair: bool, wait: float | None, lease: Lease | None, ttl: float | None
    ) -> tuple[Any, Recovery, Lease | None]:
        """The same for a handle: the claim, taken or renewed for it, is kept; the task's if it is not finished."""
        resuming = _lazily("resuming")
        wanted = self._wanted(task_id, default, repair=repair)
        answer = resuming.resume(
            self._parts(), task_id, wait=_seconds("wait", wait), lease=lease, keep=True, ttl=ttl, repair=repair
        )
        try:
            return wanted.state(answer.recovery), answer.recovery, answer.lease
        except CheckpointError:
            # Nobody would get hold of the claim: a state that does not fit must not strand the task.
            if answer.lease is not None and (lease is None or lease.token != answer.lease.token):
                self._registry.release(answer.lease)
            raise

    def _wanted(self, task_id: str, default: Any, *, repair: bool) -> Any:
        check_id("task_id", task_id)
        if type(repair) is not bool:
            raise InvalidInputError(f"repair must be true or false, found {shown(repair, 60)}")
        return _lazily("states").Wanted(default)

    # Interrupted steps.

    def resolve_step(
        self, step_id: str, outcome: str, *, by: str, reason: str, lease: Lease | None = None
    ) -> Checkpoint | None:
        """Say whether an interrupted step landed (it becomes a checkpoint) or not_landed (it is abandoned).

        Returns the checkpoint that it became, if the task still stands where it was begun. Saying the same twice is no error.

        Raises:
            StepNotFoundError, NotInterruptedError: there is nothing to settle; nothing was changed.
            TaskHeldError, LeaseLostError: another holder has the task; nothing was changed.
        """
        deciding = _lazily("deciding")
        words = check_words("by", by), check_words("reason", reason)
        found: Checkpoint | None = deciding.resolve_step(
            self._parts(), check_id("step_id", step_id), outcome, *words, check_lease(lease)
        )
        return found

    def abandon_step(self, step_id: str, *, by: str = "", reason: str = "", lease: Lease | None = None) -> bool:
        """End a begun step without a checkpoint; False if it was abandoned before."""
        resuming = _lazily("resuming")
        words = check_optional_words("by", by), check_optional_words("reason", reason)
        decision = resuming.decision(words[0], "abandon", check_id("step_id", step_id), words[1])
        return self._registry.abandon(step_id, check_lease(lease), decision)

    def end_commands(self, task_id: str) -> list[int]:
        """Kill what outlived an `agentos run` that was killed in the middle of a step: the pids of what was ended.

        Until then `recover` says `held`: what still writes is not measured. Steps whose agentos lives are left alone.
        """
        holders = _lazily("holders")
        steps = self._registry.open_steps(check_id("task_id", task_id), snapshots=False)
        return [pid for step in steps for pid in holders.end_left_running(step)]

    # The human's word.

    def accept(
        self, task_id: str, *, by: str, reason: str, subjects: Sequence[str] | None = None, checkpoint_id: str | None = None
    ) -> Checkpoint:
        """Take the world as it is: commit a manual_checkpoint with newly measured evidence for what differs.

        Args:
            subjects: only these of what differs: subjects as a Recovery names them, or paths.
            checkpoint_id: whose snapshot to go on with (default: the newest one's).

        Raises:
            InvalidInputError: nothing differs there.
            EvidenceUnavailableError: what cannot be seen cannot be accepted; nothing was changed.
        """
        deciding = _lazily("deciding")
        check_id("task_id", task_id)
        check_optional_id("checkpoint_id", checkpoint_id)
        named = subjects if isinstance(subjects, (list, tuple, set, frozenset)) else None
        if subjects is not None and (named is None or not all(type(each) is str for each in named)):
            raise InvalidInputError(f"subjects must be a list of subjects, found {shown(subjects, 80)}")
        found: Checkpoint = deciding.accept(
            self,
            self._parts(),
            task_id,
            by=check_words("by", by),
            reason=check_words("reason", reason),
            subjects=subjects,
            checkpoint_id=checkpoint_id,
        )
        return found

    def restart(self, task_id: str, *, by: str, reason: str) -> int:
        """Start the task over: every checkpoint leaves the timeline, and all are kept; how many that were."""
        return int(self._told("restart", task_id, by, reason))

    def reopen(self, task_id: str, *, by: str, reason: str) -> None:
        """Let a finished task take steps again."""
        self._told("reopen", task_id, by, reason)

    def _told(self, what: str, task_id: str, by: str, reason: str) -> Any:
        deciding, resuming = _lazily("deciding"), _lazily("resuming")
        decision = resuming.decision(check_words("by", by), what, check_id("task_id", task_id), check_words("reason", reason))
        deciding.refuse_unknown(self._registry, task_id)
        with deciding.claimed(self._registry, task_id) as lease:
            return getattr(self._registry, what)(task_id, lease, decision)

    # One resumer.

    def claim_task(self, task_id: str, *, holder: str | None = None, ttl: float | None = None) -> Lease:
        """Become the one who may go on with the task. The same holder of the same process renews.

        Args:
            holder: a name of your own for this holder.
            ttl: seconds after which others may take over unless it is renewed (default: for as long as the process lives).

        Raises:
            TaskHeldError: another living holder has it.
        """
        name = _lazily("holders").new_holder(check_optional_id("holder", holder))
        return self._registry.claim(check_id("task_id", task_id), name, check_ttl(ttl))

    def free_task(self, task_id: str, *, by: str, reason: str) -> bool:
        """Take a task from a holder that cannot be seen from here, on a person's word that it is gone; False if nobody has it.

        For a holder in another container, whose claim has no `ttl`. Whatever that holder still does changes nothing any more.

        Raises:
            TaskHeldError: the holder is seen to live: stop it first.
        """
        decision = _lazily("resuming").decision(
            check_words("by", by), "free", check_id("task_id", task_id), check_words("reason", reason)
        )
        return self._registry.free(task_id, decision)

    def release_task(self, lease: Lease) -> bool:
        """Let go of the task; False if somebody else has it by now."""
        checked = check_lease(lease)
        if checked is None:
            raise InvalidInputError("lease must be what claim_task() returned, found None")
        return self._registry.release(checked)

    # At most once.

    def once(
        self,
        key: str,
        request: Any,
        fn: Callable[[], Any],
        *,
        task_id: str | None = None,
        expects: EvidencePack | None = None,
        lease: Lease | None = None,
    ) -> Any:
        """Call `fn` at most once under this key, and give what came of it, now and every time after.

        Args:
            request: what is asked for, as JSON: the same key with another request is refused.
            expects: what will hold once it happened; after a crash, looking at that settles whether it did.

        Raises:
            OnceConflictError: the key was used for another request; nothing was done.
            OncePendingError: it was begun and it is not known whether it happened; `resolve_once` settles it.
            NotPerformed: `fn` said that it did nothing; it may be called again.
        """
        performing = _lazily("once")
        check_id("key", key)
        check_optional_id("task_id", task_id)
        baseline = None if expects is None else self._baseline(expects, {})
        return performing.perform(self._parts(), key, request, fn, task_id=task_id, expected=baseline, lease=check_lease(lease))

    def resolve_once(self, key: str, outcome: str, result: Any = None) -> None:
        """Say of a pending call whether it landed, with what came of it, or not_landed: then it may be made again.

        Raises:
            NotInterruptedError: nothing is pending under this key.
        """
        _lazily("once").resolve(self._parts(), check_id("key", key), outcome, result)

    def forget_once(self, key: str) -> bool:
        """Delete a key, so that it can be used again; False if it is not there."""
        return self._registry.forget_once(check_id("key", key))

    # Retention.

    def prune(
        self,
        task_id: str | None = None,
        *,
        keep_verified: int = 100,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove old checkpoints, superseded and abandoned steps and old verifications, and give the space back.

        Never removed: the newest `keep_verified` verified checkpoints of a task and what is newer, a step that has not ended,
        and whatever a kept checkpoint's world stands on.

        Args:
            task_id: one task (default: all).
            older_than: only what is older than this.
            dry_run: only say what would be removed.
        """
        retention = _lazily("retention")
        check_optional_id("task_id", task_id)
        check_limit(keep_verified, "keep_verified")
        if older_than is not None and (not isinstance(older_than, timedelta) or older_than < timedelta(0)):
            raise InvalidInputError(f"older_than must be a timedelta that is not negative, found {shown(older_than, 60)}")
        if type(dry_run) is not bool:
            raise InvalidInputError(f"dry_run must be true or false, found {shown(dry_run, 60)}")
        before = None if older_than is None else _before(older_than)
        counts = self._registry.prune(task_id, keep_verified, before, dry_run=dry_run)
        found: Pruned = retention.Pruned(**counts, dry_run=dry_run)
        return found

    # What the manager gives.

    def _parts(self) -> Parts:
        raise NotImplementedError

    def _baseline(self, expects: EvidencePack, snapshot: dict[str, Any]) -> tuple[bytes, bytes]:
        raise NotImplementedError


def _lazily(name: str) -> Any:
    import importlib  # noqa: PLC0415 - as below

    with importing:
        return importlib.import_module(f"agentos.core.checkpoints.{name}")


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value) if type(value) in {int, float} else -1.0
    except OverflowError:
        seconds = -1.0
    if 0 <= seconds < float("inf"):
        return seconds
    raise InvalidInputError(f"{name} must be a number of seconds from 0 or None, found {shown(value, 60)}")


def _before(older_than: timedelta) -> str:
    try:
        return (datetime.now(UTC) - older_than).isoformat()
    except OverflowError:
        raise InvalidInputError(f"older_than {older_than} reaches back before the first year") from None


def fingerprints(prints: list[str | None]) -> bytes:
    """The baseline of a step, as it is stored."""
    return codec.encode({"items": prints})
