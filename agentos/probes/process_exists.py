"""Look for a process: one by its pid, or all that fit a description.

One is looked for in /proc, where its pid means what it meant. Those that fit a description are counted with psutil, and
those that end meanwhile are not taken for none: whoever takes their place may not have been listed yet.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any

from agentos._fork import importing
from agentos._process import boottime, is_ending, is_proc_ours, sight_of, this_process
from agentos._text import shown
from agentos.core.checkpoints.kinds.matchers import matches
from agentos.core.checkpoints.kinds.processes import description
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at, timed_out

# Processes come and go; a count during which none did is soon had, or not at all.
_SCANS = 5
_MOST_NAMED = 20
# What psutil calls it.
_CALLED = {"argv": "cmdline", "user": "username"}
# Options of a mount of /proc under which it lists nobody else's processes, but to whoever may trace them.
_HIDES = frozenset(f"hidepid={how}" for how in ("2", "4", "invisible", "ptraceable"))
_CAP_SYS_PTRACE = 1 << 19


class ProcessExists:
    """Facts of one: `boot_id`, and of the same boot `there`, `start_ticks`, `started_at`, `ended`, `name`, `pid_ns`, `host`.

    Facts of a description: `count`, `unseen` (how many could not be looked at), `hidden` (whether there are others that are not
    even listed), and the `pids` of the first few.
    """

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        if "pid" in evidence.expected:
            return looked_at(lambda _: _one(evidence), around.timeout)
        return looked_at(lambda deadline: _counted(evidence, deadline), around.timeout)


def _one(evidence: Evidence) -> Seen:
    pid, metadata, here = evidence.expected["pid"], evidence.metadata, this_process()
    who = f"process {pid}"
    if not here.boot or not here.start:
        raise CannotSee("NO_PROC", f"{who}: this system has no /proc that tells processes apart")
    where = {"boot_id": here.boot, "pid_ns": here.namespace, "host": here.host}
    if evidence.expected.get("boot_id", here.boot) != here.boot:
        if metadata.get("host", here.host) != here.host:
            said = f"{who}: was seen on {shown(metadata['host'], 80)}, and this is {shown(here.host, 80)}"
            raise CannotSee("OTHER_HOST", said, "look from there")
        return Seen(where)
    _refuse_other_namespace(who, metadata)
    sight = sight_of(pid)
    if sight.there is None:
        said = f"{who}: something has this pid, and what it is cannot be seen from here"
        raise CannotSee("PROCESS_HIDDEN", said, "look as root, or from where /proc shows every process")
    return Seen(
        {
            **where,
            "there": sight.there,
            "start_ticks": sight.start,
            "started_at": _moment(sight.start) if sight.there else "",
            "ended": sight.ended,
            "name": _name_of(pid) if sight.there else "",
        }
    )


def _refuse_other_namespace(who: str, metadata: dict[str, Any]) -> None:
    here = this_process()
    if metadata.get("pid_ns", here.namespace) != here.namespace:
        said = f"{who}: was seen in another pid namespace, and its pid means nothing here"
        raise CannotSee("OTHER_NAMESPACE", said, "look from the same container")


def _name_of(pid: int) -> str:
    # For people: the first bytes of what it is called, by its own word.
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().removesuffix(b"\n").decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def _moment(ticks: int) -> str:
    seconds = time.time() - boottime() + ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _counted(evidence: Evidence, deadline: Deadline) -> Seen:
    _refuse_other_namespace("a process", evidence.metadata)
    on_linux = os.uname().sysname == "Linux"
    if on_linux and not is_proc_ours():
        raise CannotSee("NO_PROC", "there is no /proc here that speaks of the processes of this namespace")
    scan = _Scan(_psutil(), evidence.expected)
    for _ in range(_SCANS):
        scan.take(deadline)
        if not scan.passed:
            break
    pids = sorted(each.pid for each in scan.fitting)
    hidden = on_linux and _others_are_hidden()
    return Seen({"count": len(pids), "unseen": scan.unreadable + scan.passed, "hidden": hidden, "pids": pids[:_MOST_NAMED]})


def _others_are_hidden() -> bool:
    """Whether /proc may leave out the processes of other users."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split() for line in file]
    # Of those mounted over each other the last one is seen.
    options = [words[3].split(",") for words in mounts if words[1] == "/proc" and words[2] == "proc"][-1:]
    hides = any(each in _HIDES for each in (options or [[]])[0])
    return (hides and not _sees_all()) or not os.path.exists("/proc/1")


def _sees_all() -> bool:
    with open("/proc/self/status", "rb") as file:
        capable = next((int(line.split()[1], 16) for line in file if line.startswith(b"CapEff:")), 0)
    return bool(capable & _CAP_SYS_PTRACE)


def _psutil() -> Any:
    try:
        with importing:
            import psutil  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, needed for descriptions only
    except ImportError:
        said = "processes that fit a description are looked for with psutil, and it is not installed"
        raise CannotSee("NOT_INSTALLED", said, "pip install 'agentos-recovery[process]'") from None
    return psutil


class _Scan:
    """A pass over all processes, and another one if some did not hold still. `fitting` fitted at one moment, all of them."""

    def __init__(self, psutil: Any, expected: dict[str, Any]) -> None:
        self._psutil = psutil
        self._wanted = description(expected)
        self._over: set[Any] = set()
        self.fitting: list[Any] = []
        # How many did not let themselves be looked at, and how many may have fitted until a moment before they were.
        self.unreadable = self.passed = 0

    def take(self, deadline: Deadline) -> None:
        """Look at each process, and again at those that fit."""
        self.unreadable = self.passed = 0
        listed = self._psutil.pids()
        seen = [found for pid in listed if (found := self._look(pid, deadline)) is not None]
        self.fitting = [again for each in seen if (again := self._look(each.pid, deadline)) == each]
        self.passed += len(seen) - len(self.fitting)
        # Pids are given out in a circle: who takes the place of another may stand where the list had been read already.
        later, passed = set(self._psutil.pids()).difference(listed), self.passed
        # Those that are over already say nothing: on a busy machine there always are some.
        self.passed = passed + sum(self._look(pid, deadline) is not None for pid in later)

    def _look(self, pid: int, deadline: Deadline) -> Any:
        """The process, if it fits."""
        if deadline.passed():
            raise timed_out("the processes of this machine")
        process, fits = None, None
        try:
            process = self._psutil.Process(pid)
            with process.oneshot():
                fits = not self._is_over(process) and self._fits(process)
        except self._psutil.NoSuchProcess:
            # It ran when they were listed, and whoever takes its place may not have.
            self.passed += 1
            fits = False
        except self._psutil.AccessDenied:
            pass
        self.unreadable += fits is None
        return process if fits else None

    def _is_over(self, process: Any) -> bool:
        """Whether it is what is left of one. One that was not so before may have run when they were listed."""
        # The first thread of a process may end before the others do.
        if process.status() not in (self._psutil.STATUS_ZOMBIE, self._psutil.STATUS_DEAD) or process.num_threads() > 1:
            return False
        self._ended(process)
        return True

    def _ended(self, process: Any) -> None:
        self.passed += process not in self._over
        self._over.add(process)

    def _fits(self, process: Any) -> bool | None:
        """Whether it is as described; None if that is not for us to see."""
        fits: bool | None = True
        for name, matcher in self._wanted.items():
            try:
                found = getattr(process, _CALLED.get(name, name))()
            except self._psutil.AccessDenied:
                fits = None
                continue
            if not found and is_ending(process.pid):
                # What it was given is cleared away before it is over, and until then it may have fitted.
                self._ended(process)
                return False
            if not matches(matcher, found):
                return False
        return fits
