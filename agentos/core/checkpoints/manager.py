"""CheckpointManager: begin a step, commit it with evidence, verify it again, roll back only to what still holds.

Rules and order live here; looking is the verifier's, keeping is the registry's. Every stored `verified` is a memory: whoever is
about to stand on a checkpoint measures first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentos._fork import importing
from agentos._ids import new_step_id
from agentos._log import warn
from agentos._text import shown
from agentos.core.checkpoints import codec, explaining, policy, records
from agentos.core.checkpoints.begun import BegunSteps
from agentos.core.checkpoints.ending import Block, EndingStep
from agentos.core.checkpoints.handing import HandsCalls
from agentos.core.checkpoints.housekeeping import HousekeepingCalls
from agentos.core.checkpoints.identifiers import (
    check_id,
    check_lease,
    check_limit,
    check_optional_id,
    check_ttl,
    check_type,
)
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.models import Checkpoint, Evidence, EvidencePack
from agentos.core.checkpoints.naming import NamingCalls
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.core.checkpoints.ports import Ending, Intent, Look, StoredStep
from agentos.core.checkpoints.reading import ReadingCalls
from agentos.core.checkpoints.recovering import RecoveryCalls, fingerprints
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.snapshots import as_object
from agentos.core.checkpoints.task import Task
from agentos.core.checkpoints.verifier import EvidenceVerifier, absolute
from agentos.core.checkpoints.wanted import Wanted
from agentos.errors import (
    CheckpointNotFoundError,
    InvalidInputError,
    StepIdTakenError,
    StepNotFoundError,
)

if TYPE_CHECKING:
    from agentos.core.checkpoints.hands import Hands
    from agentos.core.checkpoints.keeping import Keeper
    from agentos.core.checkpoints.parts import Parts
    from agentos.core.checkpoints.reports import VerificationReport
    from agentos.core.checkpoints.workspace import Workspace

_LARGE_SNAPSHOT = 1_000_000
KEEP_LIMIT = 16 << 20
_PAGE = 256


class CheckpointManager(RecoveryCalls, HandsCalls, NamingCalls, HousekeepingCalls, ReadingCalls):
    """Drives steps and checkpoints against one registry. Safe to share between threads and across fork.

    Args:
        db_path: the registry's SQLite file; created with its folder if it is not there.
        base_path: where relative paths in evidence resolve (default: the current directory). Given explicitly, it also takes
            the place of the base that older checkpoints were committed under: the workspace moved.
        auto_verify: verify a checkpoint when it is committed.
        durability: `full`, `commit` or `relaxed`: what survives a power cut.
        allowed_roots: if given, absolute paths in evidence must lie beneath one of these.
        lock_timeout: seconds to wait for another process's write before giving up.
        verify_timeout: seconds one item of evidence may take.
        verify_deadline: seconds all items of a pack may take together.
        strict: evidence that is only declared does not count.
        keep: keep the content of every file and tree that is claimed, unless its `metadata["keep"]` is False.
        keep_limit: bytes of a file up to which its content is kept; larger ones are proven, and cannot be put back.
        vault_limit: bytes that all kept content may take.
        readonly: only look: the registry is not created, migrated or written to, be it on a read-only or full disk. What is
            to be stored is refused with StoreUnavailableError.
    """

    def __init__(
        self,
        db_path: str | Path = "store/registry.sqlite",
        base_path: str | Path | None = None,
        auto_verify: bool = True,  # noqa: FBT001, FBT002 - the contract's positional order
        *,
        durability: str = "full",
        allowed_roots: Iterable[str | Path] | None = None,
        lock_timeout: float = 30.0,
        verify_timeout: float = 300.0,
        verify_deadline: float | None = None,
        strict: bool = False,
        keep: bool = False,
        keep_limit: int = KEEP_LIMIT,
        vault_limit: int | None = None,
        readonly: bool = False,
    ) -> None:
        with importing:
            from agentos import wiring  # noqa: PLC0415 - rules do not know the other rooms; wiring does

        for name, flag in (("auto_verify", auto_verify), ("keep", keep), ("readonly", readonly)):
            if type(flag) is not bool:
                raise InvalidInputError(f"{name} must be true or false, found {shown(flag, 60)}")
        self.auto_verify = auto_verify
        self.keep_limit = check_limit(keep_limit, "keep_limit")
        self._keeps_all = keep
        self._moved = base_path is not None
        self._readonly = readonly
        self.verifier = EvidenceVerifier(
            base_path, allowed_roots=allowed_roots, timeout=verify_timeout, deadline=verify_deadline, strict=strict
        )
        parts = wiring.manager_parts(db_path, durability, lock_timeout, readonly=readonly)
        self._registry, self._sync_files, self.db_path, self._this_process = parts
        limit = None if vault_limit is None else check_limit(vault_limit, "vault_limit")
        self._made_hands = cache(lambda: wiring.hands_of(self._registry, self.db_path, limit, durability, lock_timeout))
        self._keeper = cache(lambda: _keeper(self.keep_limit))
        self._begun = BegunSteps()
        self._host = os.uname().nodename
        # Migrations were applied to it just now: a registry that was there before needs none.
        self._created = bool(self._registry.applied)

    @property
    def base_path(self) -> Path:
        """Where relative paths in evidence resolve."""
        return self.verifier.base_path

    # The life of a step.

    def begin_step(
        self,
        task_id: str,
        checkpoint_type: str,
        snapshot: dict[str, Any],
        work_item_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        expects: EvidencePack | None = None,
        rerunnable: bool = True,
        touches: Sequence[str | Path] | None = None,
        lease: Lease | None = None,
    ) -> str:
        """Make the intent to do a step durable; its id, for `commit_step`.

        Args:
            snapshot: the state before the work: a JSON object, a pydantic model or a dataclass.
            expects: what will hold once the step has had its effect. Looked at now too, so that after a crash it can be told
                whether the effect is there.
            rerunnable: False for a step that must not run twice; recovery then never repeats it on a guess.
            touches: files that the step is about to change; as they are now they are kept, and put back by a repair before
                the step is run again.
            lease: the claim under which this runs, if the task is claimed.

        Raises:
            InvalidInputError: an argument is refused; nothing was written.
            TaskFinishedError: the task takes no further steps.
            TaskHeldError: another living holder has the task, and no lease was given.
            LeaseLostError: the lease is not the task's current one.
        """
        if type(rerunnable) is not bool:
            raise InvalidInputError(f"rerunnable must be true or false, found {shown(rerunnable, 60)}")
        check_lease(lease)
        data, copy = _encoded(snapshot)
        intent = Intent(
            new_step_id(),
            check_id("task_id", task_id),
            check_type(checkpoint_type),
            check_optional_id("work_item_id", work_item_id),
            data,
            b"{}" if metadata is None else codec.encode(as_object(metadata, "metadata"), "metadata"),
            self.verifier.around.base_path,
            self._host,
            self._this_process().text if lease is None else lease.holder,
            datetime.now(UTC).isoformat(),
            rerunnable=rerunnable,
            lease=lease,
        )
        if expects is not None:
            intent.expects, intent.baseline = self._baseline(expects, copy)
        if touches is None:
            self._begin(intent)
        else:
            with importing:
                from agentos.core.checkpoints.touching import kept_before  # noqa: PLC0415 - few steps say what they change
            with kept_before(touches, self._around(None, copy), self.verifier, self._hands()) as intent.touched:
                self._begin(intent)
        self._begun.add(intent, copy)
        return intent.step_id

    def commit_step(
        self,
        step_id: str,
        evidence_pack: EvidencePack,
        checkpoint_id: str | None = None,
        *,
        snapshot: dict[str, Any] | None = None,
        lease: Lease | None = None,
    ) -> Checkpoint:
        """End a step as a checkpoint with its evidence, which is verified first unless `auto_verify` is off.

        A verification that fails does not refuse the commit: the checkpoint is stored with `verified=False` and the reasons.

        Args:
            checkpoint_id: a name of your own; a ULID otherwise.
            snapshot: the state after the work, if it is not the one given at begin.

        Raises:
            StepNotFoundError, StepAlreadyCommittedError, CheckpointIdTakenError: nothing was stored.
            EvidenceDefinitionError: an item could never be checked as written; nothing was stored.
            LeaseLostError: the task went into other hands since the step was begun; nothing was stored.
        """
        check_optional_id("checkpoint_id", checkpoint_id)
        pack_bytes, pack = self._checked_pack(evidence_pack)
        ending = self._ending_of(step_id, snapshot)
        seen = self._looked_at(pack, ending) if self.auto_verify else None  # (1)
        with self._kept(pack, seen, ending) as kept:  # (2)
            data = records.encode_pack(pack)[0] if kept else pack_bytes
            stored = self._commit(ending, data, pack, seen, checkpoint_id, lease)  # (3) (4)
        if seen is not None:
            # The caller's own items are told too what was found.
            for theirs, ours in zip(evidence_pack.evidence_list, pack.evidence_list, strict=False):
                if ours.result is not None and ours.verified_at is not None:
                    theirs.record(ours.result, ours.verified_at)
        return stored

    def commit_block(
        self,
        step_id: str,
        claims: Sequence[Evidence | Wanted],
        releases: Sequence[str],
        *,
        snapshot: Any,
        lease: Lease | None = None,
    ) -> Checkpoint:
        """End the step of a handle's block: what is still to be measured is measured now, by the look that verifies it.

        Raises:
            EvidenceUnavailableError: there is nothing to measure, and nothing to claim instead; nothing was stored.
        """
        ending = self._ending_of(step_id, snapshot)
        # Copies: what is committed must be what was looked at, whatever the caller does to his own meanwhile.
        _, given = self._checked_pack(EvidencePack([claim for claim in claims if isinstance(claim, Evidence)]))
        block = Block(claims, given.evidence_list, looks_at_all=self.auto_verify)
        seen = self._looked_at(block.asked, ending)  # (1)
        pack_bytes, pack = self._checked_pack(EvidencePack(block.filled(seen), releases=list(releases)))
        with self._kept(pack, block.seen(seen), ending, block.keeps) as kept:  # (2)
            data = records.encode_pack(pack)[0] if kept else pack_bytes
            return self._commit(ending, data, pack, seen if self.auto_verify else None, None, lease)  # (3) (4)

    # Looking again.

    def verify_checkpoint(self, checkpoint_id: str) -> bool:
        """Whether the checkpoint's own evidence holds now. The answer is recorded.

        Could not be checked is False too, but leaves the last known answer as it was.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
        """
        return self._look_again(self._existing(checkpoint_id))[0] is Outcome.VERIFIED

    def verification_report(self, checkpoint_id: str, *, look: bool = True) -> VerificationReport:
        """The same as a report, item by item.

        Args:
            look: measure now and record it; False shows what was found last.
        """
        with importing:
            from agentos.core.checkpoints.reports import VerificationReport  # noqa: PLC0415 - only who reads reports pays for it

        stored = self._existing(checkpoint_id)
        if not look:
            return VerificationReport.of_checkpoint(records.loaded_checkpoint(stored))
        _, pack, _ = self._look_again(stored)
        return VerificationReport.of_checkpoint(records.checkpoint_from(stored, pack, {}))

    def rollback_to_checkpoint(
        self, checkpoint_id: str, *, supersede_later: bool = False, lease: Lease | None = None
    ) -> dict[str, Any]:
        """The snapshot of a checkpoint whose own evidence holds now. No file is touched.

        Args:
            supersede_later: also end the timeline here; later checkpoints are kept, but are no longer on it.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
            EvidenceMismatchError: the world differs; says what, and which later step recorded what is there now.
            EvidenceUnavailableError: something could not be checked.
        """
        stored = self._existing(checkpoint_id)
        outcome, pack, around = self._look_again(stored)
        if outcome is not Outcome.VERIFIED:
            with importing:
                from agentos.core.checkpoints.recorders import recorded_since  # noqa: PLC0415 - only a refusal needs a reason

            recorders = recorded_since(self._registry, self.verifier, stored, pack, around)
            raise explaining.refusal(stored, pack, outcome, recorders)
        if supersede_later:
            self._registry.supersede_later(stored.step_id, check_lease(lease))
        snapshot: dict[str, Any] = codec.decode(stored.snapshot)
        return snapshot

    # Reading.

    def get_last_verified_checkpoint(self, task_id: str, checkpoint_type: str | None = None) -> Checkpoint | None:
        """The newest checkpoint whose last known verification passed, or None. Does not look at the world."""
        check_id("task_id", task_id)
        if checkpoint_type is not None:
            check_type(checkpoint_type)
        stored = self._registry.last_verified(task_id, checkpoint_type)
        return None if stored is None else records.loaded_checkpoint(stored)

    def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        """The checkpoint of this id, or None."""
        stored = self._registry.checkpoint(check_id("checkpoint_id", checkpoint_id))
        return None if stored is None else records.loaded_checkpoint(stored)

    def list_checkpoints(
        self, task_id: str, limit: int = 100, checkpoint_type: str | None = None, *, include_superseded: bool = False
    ) -> list[Checkpoint]:
        """The task's timeline, newest first."""
        check_id("task_id", task_id)
        check_limit(limit)
        if checkpoint_type is not None:
            check_type(checkpoint_type)
        found = self._registry.checkpoints(task_id, limit, checkpoint_type, include_superseded=include_superseded)
        return [records.loaded_checkpoint(stored) for stored in found]

    def checkpoint_ids(self, task_id: str) -> Iterator[str]:
        """The ids on the task's timeline, newest first, however many there are."""
        check_id("task_id", task_id)
        below = 1 << 62
        while page := self._registry.candidates(task_id, below, _PAGE):
            yield from (stored.checkpoint_id or "" for stored in page)
            below = page[-1].sequence or 0

    def get_step(self, step_id: str) -> records.Step | None:
        """The step of this id as it was begun, or None; also after a crash, also from another process."""
        stored = self._registry.step(check_id("step_id", step_id))
        return None if stored is None else records.loaded_step(stored)

    def list_open_steps(self, task_id: str) -> list[records.Step]:
        """The steps of the task that were begun and never ended, oldest first."""
        return [records.loaded_step(stored) for stored in self._registry.open_steps(check_id("task_id", task_id))]

    def interrupted_tasks(self) -> list[str]:
        """The tasks with steps that were begun and never ended, in order; some may be under way right now."""
        return self._registry.interrupted_tasks()

    # Ending things.

    def delete_checkpoint(self, checkpoint_id: str) -> bool:
        """Remove the checkpoint's snapshot and hide it; False if there is none. Its number is never used again."""
        return self._registry.delete(check_id("checkpoint_id", checkpoint_id))

    def finish_task(self, task_id: str, *, lease: Lease | None = None) -> None:
        """Mark the task as completed: it takes no further steps, and nobody holds it."""
        self._registry.finish(check_id("task_id", task_id), check_lease(lease))

    def task(
        self,
        task_id: str,
        *,
        workspace: str | Path | None = None,
        exclude: Sequence[str] = (),
        shared: bool = False,
        ttl: float | None = None,
    ) -> Task:
        """A handle bound to one task.

        Args:
            workspace: the folder that the task works in: its relative paths resolve there, and each of its checkpoints proves
                and keeps all of it (default: this manager's base path, of which only what is claimed is proven).
            exclude: what is left out of the workspace, in lines as a `.gitignore` holds them.
            shared: other tasks may work in the same folder.
            ttl: seconds after which another may take the task over from a holder that does not stir, be it alive
                (default: never; a holder that died is no holder).
        """
        check_id("task_id", task_id)
        check_ttl(ttl)
        if workspace is None:
            return Task(self, task_id, ttl)
        there = self.at(workspace)
        with importing:
            from agentos.core.checkpoints.workspace import workspace_at  # noqa: PLC0415 - who has none does not pay for it
        hands = self._hands()
        folder = workspace_at(str(there.base_path), exclude, shared, self.db_path, hands.place, hands.real)
        return Task(there, task_id, ttl, folder)

    def enter_workspace(self, task_id: str, workspace: Workspace) -> None:
        """Write down that the task works in this folder, which is made for one that never committed anything.

        Raises:
            WorkspaceTakenError: another unfinished task works there, or in a folder that overlaps it.
        """
        now = datetime.now(UTC).isoformat()
        self._registry.enter_workspace(workspace.entered(task_id, now))
        stored = self._registry.task(task_id)
        if stored is None or not stored.sequence:
            self._hands().make_folder(workspace.path)

    def note_error(self, step_id: str, error: BaseException) -> None:
        """Write down what interrupted a step. It stays begun."""
        self._registry.note_error(check_id("step_id", step_id), _described(error))

    def close(self) -> None:
        """Let go of the registry. Closing twice is no error; every other call after it is."""
        self._registry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # The rest is how.

    def _begin(self, intent: Intent) -> None:
        try:
            self._registry.begin(intent)
        except StepIdTakenError:
            intent.step_id = new_step_id()
            self._registry.begin(intent)

    def _parts(self) -> Parts:
        with importing:
            from agentos.core.checkpoints.parts import Parts  # noqa: PLC0415 - only who recovers pays for it

        return Parts(
            self._registry,
            self.verifier,
            self._surroundings,
            self._moved,
            self.db_path,
            self._created,
            self._hands,
            self._sync_files,
            self._readonly,
        )

    def _baseline(self, expects: EvidencePack, snapshot: dict[str, Any]) -> tuple[bytes, bytes]:
        """What a step or a call expects, as it is stored, and what is seen of it now."""
        from agentos.core.checkpoints.interrupted import fingerprint  # noqa: PLC0415 - only who says what to expect pays for it

        if not isinstance(expects, EvidencePack):
            raise InvalidInputError(f"expects must be an EvidencePack, found {type(expects).__name__}")
        data, pack = self._checked_pack(expects)
        if not pack.evidence_list:
            raise InvalidInputError("expects is empty: it would say nothing", hint="leave it out, or say what to look for")
        around = self._around(None, snapshot)
        seen = self.verifier.observe_all([(item, around) for item in pack.evidence_list], once=True)
        return data, fingerprints([fingerprint(each) for each in seen])

    def at(self, workspace: str | Path, *, keep: bool | None = None) -> CheckpointManager:
        """This manager, looking from another base, and keeping by default if that is said; registry and memory are shared."""
        view = object.__new__(CheckpointManager)
        view.__dict__.update(self.__dict__)
        view.verifier = self.verifier.moved(absolute(workspace, "workspace", self.base_path))
        view._moved = True
        view._keeps_all = self._keeps_all if keep is None else keep
        return view

    def _checked_pack(self, given: EvidencePack) -> tuple[bytes, EvidencePack]:
        """The pack as it is stored, and a copy that the caller cannot change while it is being verified."""
        if not isinstance(given, EvidencePack):
            raise InvalidInputError(f"evidence_pack must be an EvidencePack, found {type(given).__name__}")
        policy.refuse_spoiled(given)
        data, pack = records.encode_pack(given)
        for item in pack.evidence_list:
            kind_of(item).refuse_misfit(item)
        policy.refuse_unreachable(pack)
        return data, pack

    def _around(self, stored_base: str | None, snapshot: dict[str, Any]) -> Surroundings:
        return self._surroundings(stored_base, lambda: snapshot)

    def _surroundings(self, stored_base: str | None, snapshot: Callable[[], dict[str, Any] | None]) -> Surroundings:
        here = self.verifier.around
        base = stored_base or here.base_path
        return Surroundings(base, here.allowed_roots, here.timeout, self.db_path, snapshot, kept=self._content)

    def _ending_of(self, step_id: str, snapshot: Any) -> EndingStep:
        """What is known of a step that is about to end."""
        begun = self._begun.get(check_id("step_id", step_id)) or self._begun.load(self._registry.step(step_id))
        if begun is None:
            raise StepNotFoundError(f"step {shown(step_id, 80)}: unknown", hint="begin_step() returns the id to commit")
        after = None if snapshot is None else _encoded(snapshot)
        if after is not None and after[0] == begun.snapshot:
            after = None
        state = begun.state if after is None else after[1]
        around = self._around(begun.base_path if not self._moved else None, state)
        return EndingStep(step_id, begun.task_id, begun.begun_at, None if after is None else after[0], state, around)

    def _looked_at(self, pack: EvidencePack, ending: EndingStep) -> list[Observation]:
        self._sync_files(pack, ending.around, datetime.fromisoformat(ending.begun_at))
        return self.verifier.observe_all([(item, ending.around) for item in pack.evidence_list])

    @contextmanager
    def _kept(
        self,
        pack: EvidencePack,
        seen: Sequence[Observation | None] | None,
        ending: EndingStep,
        by_default: Sequence[bool] = (),
    ) -> Iterator[bool]:
        """While this lasts, what the pack claims and is to be kept is in the vault; whether that is anything."""
        items = pack.evidence_list
        if not (self._keeps_all or any(by_default) or any("keep" in item.metadata for item in items)):
            yield False
            return
        with importing:
            from agentos.core.checkpoints.keeping import Newest, ToKeep, wants  # noqa: PLC0415 - only who keeps pays for it

        defaults = by_default or [self._keeps_all] * len(items)
        looks = seen or [None] * len(items)
        wanted = [
            ToKeep(item, look)
            for item, look, default in zip(items, looks, defaults, strict=True)
            if wants(item, by_default=default or self._keeps_all)
        ]
        if not wanted:
            yield False
            return
        with self._hands().keeping() as kept:
            newest = Newest(ending.task_id, lambda: self._newest_pack(ending.task_id))
            self._keeper().keep(wanted, ending.around, kept, newest)
            yield True

    def _newest_pack(self, task_id: str) -> EvidencePack | None:
        newest = self._registry.checkpoints(task_id, 1, None, include_superseded=False)
        return records.decode_pack(newest[0].pack or b"") if newest else None

    def _hands(self) -> Hands:
        return self._made_hands()

    def _content(self, digest: str) -> bytes | None:
        return self._hands().content(digest)

    def _commit(
        self,
        ending: EndingStep,
        pack_bytes: bytes,
        pack: EvidencePack,
        seen: Sequence[Observation] | None,
        checkpoint_id: str | None,
        lease: Lease | None,
    ) -> Checkpoint:
        look = None if seen is None else self._look_of(pack, self.verifier.judge_seen(pack, seen))  # (3)
        stored = self._registry.commit(  # (4) a crash before this leaves the step begun: it is seen, and never trusted
            Ending(
                ending.step_id,
                checkpoint_id,
                pack_bytes,
                ending.snapshot,
                records.claims_of(pack, ending.around.base_path),
                look,
                ending.around.base_path,
                datetime.now(UTC).isoformat(),
                os.urandom(12).hex(),
                check_lease(lease),
            )
        )
        self._begun.forget(ending.step_id)
        if stored.repeated:
            return records.loaded_checkpoint(stored)
        return records.checkpoint_from(stored, pack, ending.state)

    def _look_of(self, pack: EvidencePack, outcome: Outcome) -> Look:
        now = datetime.now(UTC)
        for item in pack.evidence_list:
            # One look has one time, and it is the stored one.
            item.verified_at = now
        return Look(outcome.value, records.encode_results(pack, now), now.isoformat(), f"{self._host}:{os.getpid()}")

    def _look_again(self, stored: StoredStep) -> tuple[Outcome, EvidencePack, Surroundings]:
        pack = records.decode_pack(stored.pack or b"")
        around = self._around(None if self._moved else stored.base_path, codec.decode(stored.snapshot))
        outcome = self.verifier.judge_pack(pack, around, checked=True)
        look = self._look_of(pack, outcome)
        if not self._readonly:
            self._registry.record_look(stored.step_id, stored.last_verified_at, look)
        return outcome, pack, around

    def _existing(self, checkpoint_id: str) -> StoredStep:
        stored = self._registry.checkpoint(check_id("checkpoint_id", checkpoint_id))
        if stored is None:
            raise CheckpointNotFoundError(
                f"checkpoint {shown(checkpoint_id, 80)}: unknown", hint="list_checkpoints(task_id) shows what there is"
            )
        return stored


def _keeper(limit: int) -> Keeper:
    with importing:
        from agentos.core.checkpoints.keeping import Keeper  # noqa: PLC0415 - only who keeps pays for it

    return Keeper(limit)


def _encoded(snapshot: Any) -> tuple[bytes, dict[str, Any]]:
    data, copy = codec.encode_checked(as_object(snapshot))
    if len(data) > _LARGE_SNAPSHOT:
        warn("checkpoints", "a snapshot of %s bytes; keep it below 1 MB and large content in files", f"{len(data):,}")
    return data, copy


def _described(error: BaseException) -> str:
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - whatever an exception fails to say, it is the one that counts
        words = "(it cannot be described)"
    return shown(f"{type(error).__name__}: {words}")
