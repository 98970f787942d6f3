"""A handle bound to one task: a thin, pleasant face of the manager's contract.

`with task.step(...)` begins a step, and ends it as a checkpoint when the block ends. Leaving the block by an exception leaves
the step begun, with the error written down. No globals, no decorators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentos._fork import importing
from agentos._log import warn
from agentos._text import shown
from agentos.core.checkpoints import capturing, wanted
from agentos.core.checkpoints.explaining import list_reasons
from agentos.core.checkpoints.kinds import as_claimed, kind_of
from agentos.core.checkpoints.models import Checkpoint, Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.subjects import SUBJECT
from agentos.core.checkpoints.wanted import Wanted
from agentos.errors import (
    CheckpointError,
    EvidenceUnavailableError,
    InvalidInputError,
    NotSafeToResumeError,
    NotVerifiedError,
)

if TYPE_CHECKING:
    from agentos.core.checkpoints.lease import Lease
    from agentos.core.checkpoints.manager import CheckpointManager
    from agentos.core.checkpoints.recovered import Recovery
    from agentos.core.checkpoints.running import CommandRun
    from agentos.core.checkpoints.workspace import Workspace


class Task:
    """One long-running job. Made by `CheckpointManager.task` or `agentos.task`.

    `resume` claims the task for this handle; `finish`, or the end of a `with` block, lets go of it. `recovery` is what the last
    `resume` found.
    """

    def __init__(
        self, manager: CheckpointManager, task_id: str, ttl: float | None = None, workspace: Workspace | None = None
    ) -> None:
        self.manager = manager
        self.task_id = task_id
        self.workspace = workspace
        self.lease: Lease | None = None
        self.recovery: Recovery | None = None
        self._ttl = ttl
        self._entered = False

    def resume(self, default: Any, *, repair: bool = False, wait: float | None = None) -> Any:
        """The state to go on with, measured now; `default` if nothing was ever committed. The task is this handle's then.

        With a workspace, the first `resume` of all commits it as it is found.

        Args:
            default: a dict, or a typed state (an instance, or its class): the state then comes back as that type.
            repair: put back what differs, where that is possible; whatever that overwrites is kept: see `recovery.explain()`.
            wait: seconds to wait for another holder, or for what cannot be checked.

        Raises:
            NotSafeToResumeError: no state can be proven; its `recovery` says what differs and what can be done.
            WorkspaceTakenError: another unfinished task works in this folder.
        """
        self.enter()
        try:
            state, self.recovery, self.lease = self.manager.resume_held(
                self.task_id, default, repair=repair, wait=wait, lease=self.lease, ttl=self._ttl
            )
        except NotSafeToResumeError as refusal:
            self.recovery, self.lease = refusal.recovery, None
            raise
        if self.workspace is not None and self.recovery.verdict == "fresh":
            self._commit_baseline(self.workspace, state)
        return state

    def enter(self) -> None:
        """Say where this task works, once."""
        if self.workspace is not None and not self._entered:
            self.manager.enter_workspace(self.task_id, self.workspace)
            self._entered = True

    def _commit_baseline(self, workspace: Workspace, state: Any) -> None:
        """The workspace as it was found: the first step can be taken back too."""
        about = {"baseline": workspace.path}
        step_id = self.manager.begin_step(self.task_id, "manual_checkpoint", state, metadata=about, lease=self.lease)
        self.manager.commit_block(step_id, [workspace.claim()], [], snapshot=None, lease=self.lease)

    def step(
        self,
        checkpoint_type: str,
        state: Any,
        *,
        work_item_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        expects: EvidencePack | None = None,
        rerunnable: bool = True,
        touches: Sequence[str | Path] | None = None,
    ) -> StepBlock:
        """A block that is one step: `with task.step("tool_executed", state) as step:`.

        The intent is durable when the block begins; the state as it is when the block ends is what is committed.

        Args:
            expects: what will hold once the step has had its effect: after a crash, that tells whether it had.
            rerunnable: False for a step that must not run twice.
            touches: files that it is about to change; they are kept as they are now.
        """
        begin = {
            "work_item_id": work_item_id,
            "metadata": metadata,
            "expects": expects,
            "rerunnable": rerunnable,
            "touches": touches,
        }
        return StepBlock(self, checkpoint_type, state, begin)

    def checkpoints(self, limit: int = 100) -> list[Checkpoint]:
        """The timeline of the task, newest first."""
        return self.manager.list_checkpoints(self.task_id, limit)

    def finish(self) -> None:
        """The task is done: it takes no further steps, and nobody holds it."""
        lease, self.lease = self.lease, None
        self.manager.finish_task(self.task_id, lease=lease)

    def release(self) -> None:
        """Let go of the task, so that another handle can resume it. Nothing that was committed is touched."""
        lease, self.lease = self.lease, None
        if lease is not None:
            self.manager.release_task(lease)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.release()
        except CheckpointError as trouble:
            if error is None:
                raise
            # The caller's own exception is the one to see; the claim ends with this process at the latest.
            warn("checkpoints", "task %s could not be let go of: %s", shown(self.task_id, 80), trouble)


class StepBlock:
    """One step under way. `state` may be changed in place or replaced; `checkpoint` is there once the block has ended."""

    def __init__(self, task: Task, checkpoint_type: str, state: Any, begin: dict[str, Any]) -> None:
        self.state = state
        self.step_id = ""
        self.checkpoint: Checkpoint | None = None
        self._task = task
        self._type = checkpoint_type
        self._begin = begin
        self._claims: list[Evidence | Wanted] = []
        self._releases: list[str] = []
        self._open = False

    def proves(self, evidence: Evidence) -> None:
        """Claim something; it is checked when the block ends.

        Raises:
            EvidenceDefinitionError: it could never be checked as written.
        """
        if not isinstance(evidence, Evidence):
            raise InvalidInputError(f"step.proves: takes Evidence, found {shown(evidence, 80)}")
        kind_of(evidence).refuse_malformed(evidence)
        self._claims.append(evidence)

    def proves_file(self, path: str | Path, description: str = "", *, keep: bool | None = None) -> None:
        """Claim a file with the content it has when the block ends, and keep that content.

        Args:
            keep: False to keep nothing, True to keep it whatever its size (default: up to the manager's `keep_limit`).

        Raises:
            InvalidInputError: no file can have this path.
        """
        self._measure(_kept(wanted.file_content(path, description), keep))

    def proves_prefix(self, path: str | Path, description: str = "") -> None:
        """Claim what the file holds when the block ends as its beginning: more may be appended later.

        Raises:
            InvalidInputError: no file can have this path.
        """
        self._claims.append(_checked(wanted.file_beginning(path, description)))

    def proves_tree(
        self,
        path: str | Path,
        exclude: Sequence[str] = (),
        *,
        gitignore: bool = False,
        description: str = "",
        keep: bool | None = None,
    ) -> None:
        """Claim everything beneath a folder as it is when the block ends, and keep what its files hold.

        Args:
            exclude: lines, as in a `.gitignore`, of what is left out; they are part of the claim.
            gitignore: what the `.gitignore` files in the tree leave out is left out too, and so is `.git`.
            keep: False to keep nothing, True to keep files whatever their size (default: up to the manager's `keep_limit`).

        Raises:
            InvalidInputError: no folder can have this path.
            EvidenceDefinitionError: the lines cannot be read.
        """
        self._measure(_kept(wanted.directory_tree(path, exclude, gitignore=gitignore, description=description), keep))

    def proves_json(self, path: str | Path, pointer: str, description: str = "") -> None:
        """Claim the value that a JSON file has at the pointer (RFC 6901) when the block ends.

        Raises:
            InvalidInputError: no file can have this path, or this is no pointer.
        """
        self._claims.append(_checked(wanted.json_value(path, pointer, description)))

    def proves_container(self, name: str, *, runtime: str = "docker", description: str = "") -> None:
        """Claim the very run of a container that goes on when the block ends: its id, image and start.

        Raises:
            EvidenceDefinitionError: no container can have this name.
        """
        self._claims.append(wanted.running_container(name, runtime, description))

    def proves_absent(self, path: str | Path, description: str = "") -> None:
        """Claim that nothing is at this path when the block ends, and that nothing comes back there.

        Raises:
            InvalidInputError: no file can have this path.
        """
        self._claims.append(_absence(path, description))

    def proves_row(
        self,
        table: str,
        where: dict[str, Any],
        columns: Sequence[str] | None = None,
        db_path: str | Path | None = None,
        description: str = "",
    ) -> None:
        """Claim what the one row that `where` names holds when the block ends, in these columns or in all.

        Args:
            db_path: the database (default: the manager's own registry).

        Raises:
            InvalidInputError: these are no columns, or this is no path.
            EvidenceDefinitionError: no row could be told by this.
        """
        self._claims.append(wanted.row_values(table, where, columns, db_path, description))

    def proves_git(self, repo: str | Path = ".", *, clean: bool = True, description: str = "") -> None:
        """Claim the commit, and the branch, that a repository stands at when the block ends.

        Args:
            clean: and that its files are those of that commit, with nothing untracked beside them. That stands for every later
                step too, until it is claimed anew or let go of.

        Raises:
            InvalidInputError: no repository can be there.
        """
        self._claims.append(_checked(wanted.git_commit(repo, description)))
        if clean:
            self.proves(wanted.clean_worktree(repo, description))

    def releases(self, path: str | Path) -> None:
        """Let go of a file: what was claimed of it stands no longer, and nothing is claimed instead.

        Args:
            path: a file, or another subject by its name, such as `worktree:.`.

        Raises:
            InvalidInputError: no file can have this path.
        """
        if isinstance(path, str) and re.fullmatch(SUBJECT, path):
            self._releases.append(as_claimed(path, str(self._task.manager.base_path)))
        else:
            self._releases.append(self._subject(_absence(path, "")))

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = capturing.TIMEOUT,
        products: Sequence[str | Path] = (),
        description: str = "",
        exit_code: int = 0,
        max_output: int = capturing.MAX_OUTPUT,
        sensitive: bool = False,
    ) -> CommandRun:
        """Run a command now, and claim that it ended with this exit code; its products are claimed as files.

        It is run once: what the block claims is the record of this run. See `Evidence.capture_command`.

        Args:
            cwd: the folder it runs in (default: where the task's relative paths resolve).
            products: files it leaves behind; each is measured when the block ends.

        Raises:
            InvalidInputError: an argument is refused, or the block is not under way; nothing was run.
            EvidenceUnavailableError: it could not be started; nothing is claimed.
        """
        if not self._open:
            raise InvalidInputError(
                "step.run: the step's block is not under way, so no intent is kept", hint="call it inside `with task.step(...)`"
            )
        with importing:
            from agentos.core.checkpoints.running import command_of, product_claims  # noqa: PLC0415 - few steps run commands

        files = product_claims(products)
        command = command_of(
            argv,
            cwd=cwd,
            env=env,
            timeout=timeout,
            products=(),
            base_path=self._task.manager.base_path,
            description=description,
            exit_code=exit_code,
            max_output=max_output,
            sensitive=sensitive,
        )
        ran = capturing.run(command)
        self._claims.append(ran.evidence)
        for claim in files:
            # What the block says of it itself, such as whether it is kept, counts more.
            if all(isinstance(each, Evidence) or self._asked(each) != self._asked(claim) for each in self._claims):
                self._measure(_kept(claim, None))
        return ran

    def _measure(self, claim: Wanted) -> None:
        """Measure it when the block ends, once: the same that was asked for before is not asked for again."""
        asked = self._asked(claim)
        self._claims = [each for each in self._claims if not isinstance(each, Wanted) or self._asked(each) != asked]
        self._claims.append(claim)

    def _asked(self, claim: Wanted) -> tuple[str, str]:
        return claim.evidence.evidence_type, self._subject(claim.evidence)

    def _subject(self, evidence: Evidence) -> str:
        return kind_of(evidence).subject(evidence, str(self._task.manager.base_path))

    def __enter__(self) -> Self:
        if self.step_id:
            raise InvalidInputError("a step's block is entered once", hint="call task.step() again for the next step")
        task = self._task
        task.enter()
        self.step_id = task.manager.begin_step(task.task_id, self._type, self.state, lease=task.lease, **self._begin)
        self._open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        manager, self._open = self._task.manager, False
        if error is not None:
            self._note(error)
            return
        folder = self._task.workspace
        claims = self._claims if folder is None else [*self._claims, folder.claim()]
        try:
            self.checkpoint = manager.commit_block(
                self.step_id, claims, self._releases, snapshot=self.state, lease=self._task.lease
            )
        except (InvalidInputError, EvidenceUnavailableError) as refusal:
            # Nothing was stored: the step stays begun, and why is written down with it.
            self._note(refusal)
            raise
        if manager.auto_verify and not self.checkpoint.verified:
            self._refuse(self.checkpoint)

    def _note(self, error: BaseException) -> None:
        try:
            self._task.manager.note_error(self.step_id, error)
        except CheckpointError as trouble:
            # The caller's own exception is the one to see; that it could not be written down only makes the report poorer.
            warn("checkpoints", "the error of step %s could not be recorded: %s", self.step_id, trouble)

    def _refuse(self, checkpoint: Checkpoint) -> None:
        reasons = list_reasons(checkpoint.evidence_pack)
        why = "; ".join(reasons) if reasons else "nothing was claimed"
        raise NotVerifiedError(
            f"step {self.step_id}: stored unverified as checkpoint {checkpoint.checkpoint_id}: {why}",
            hint=_MEND if reasons else _CLAIM,
            checkpoint_id=checkpoint.checkpoint_id,
            reasons=reasons,
        )


_CLAIM = "claim what the step leaves behind with step.proves_file(path), proves_absent(path) or proves(evidence)"
_MEND = "mend what the step leaves behind and run it again; manager.verification_report(checkpoint_id) says more"


def _absence(path: object, description: str) -> Evidence:
    name = wanted.path_text(path)
    claim = Evidence(EvidenceType.ARTIFACT_ABSENT, description or f"nothing at {shown(name, 120)}", {"path": name})
    kind_of(claim).refuse_malformed(claim)
    return claim


def _kept(claim: Wanted, keep: object) -> Wanted:
    if keep is not None and type(keep) is not bool:
        raise InvalidInputError(f"keep must be true, false or None, found {shown(keep, 60)}")
    if keep is not None:
        claim.evidence.metadata["keep"] = keep
    return _checked(replace(claim, keeps=True))


def _checked(claim: Wanted) -> Wanted:
    """Refuse at once what could never be claimed; that it is there is asked when the block ends."""
    if claim.otherwise is not None:
        kind_of(claim.otherwise).refuse_malformed(claim.otherwise)
    return claim
