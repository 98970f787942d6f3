"""Claims about containers: that one runs, is the one that was meant, and is well by its own account.

An engine says `running` of a container that it restarts again and again, so all its states are judged, and with more than one
sample also whether it was started anew in between.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.hosts import THRESHOLD, check_choice, check_whole
from agentos.core.checkpoints.kinds.kind import (
    HOLDS,
    Effort,
    Filled,
    Kind,
    Lifetime,
    Retries,
    Schema,
    Verdict,
    refuse,
    told,
)
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome

RUNTIMES = ("docker", "podman")
HEALTHS = ("healthy", "starting", "unhealthy", "none", "any")
MOST_SAMPLES = 10
DEFAULT_INTERVAL, DEFAULT_TIMEOUT = 1.0, 10.0
_ID = re.compile(r"[0-9a-f]{12,64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# What makes one run of a container another one.
_RUN = ("id", "started_at", "restarts")
_LOOK = "look at the container and its log; it is asked again until its deadline"
_ANOTHER = "it is not the container that was claimed: find out who replaced it"


def _check(evidence: Evidence) -> None:
    expected, metadata = evidence.expected, evidence.metadata
    if ("id" in expected) is ("name" in expected):
        refuse(evidence, "expected must have either 'id' or 'name'", "names are reused: an id is the better claim")
    _check_text(evidence, "id", _ID, "12 to 64 hexadecimal digits")
    _check_text(evidence, "name", _NAME, "the name of a container")
    _check_text(evidence, "image_digest", _DIGEST, "sha256: and 64 hexadecimal digits")
    check_choice(evidence, "expected['health']", expected.get("health", "any"), HEALTHS)
    started = expected.get("started_at", "-")
    if type(started) is not str or not started:
        refuse(evidence, f"expected['started_at'] must be a time as the engine writes it, found {told(evidence, started)}")
    check_choice(evidence, "metadata['runtime']", metadata.get("runtime", "docker"), RUNTIMES)
    if "socket" in metadata:
        refuse(evidence, "metadata['socket'] is not for evidence to choose", "DOCKER_HOST where agentos runs says it")
    _check_samples(evidence)


def _check_text(evidence: Evidence, key: str, form: re.Pattern[str], what: str) -> None:
    value = evidence.expected.get(key)
    if key in evidence.expected and (type(value) is not str or not form.fullmatch(value)):
        refuse(evidence, f"expected['{key}'] must be {what}, found {told(evidence, value, 80)}")


def _check_samples(evidence: Evidence) -> None:
    samples, interval = evidence.metadata.get("success_threshold", 1), evidence.metadata.get("interval", DEFAULT_INTERVAL)
    check_whole(evidence, "metadata['success_threshold']", samples, 1, MOST_SAMPLES)
    limit = evidence.metadata.get("timeout", DEFAULT_TIMEOUT)
    if type(interval) not in (int, float) or interval < 0 or interval * (samples - 1) >= limit:
        said = f"metadata['interval'] must be seconds between samples that fit {limit:g} s, found {told(evidence, interval)}"
        refuse(evidence, said, "ask for fewer samples, or give metadata['timeout']")


def name_of(evidence: Evidence) -> str:
    """The container as evidence names it: by id or by name."""
    named: str = evidence.expected.get("id") or evidence.expected["name"]
    return named


def _subject(evidence: Evidence, _: str) -> str:
    return f"container:{evidence.metadata.get('runtime', 'docker')}/{name_of(evidence)}"


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    samples: list[dict[str, Any]] = facts["samples"]
    for sample in samples:
        verdict = _judge_one(evidence, sample)
        if verdict.outcome is not Outcome.VERIFIED:
            return verdict
    first, last = samples[0], samples[-1]
    if any(first[each] != last[each] for each in _RUN):
        return _differs(evidence, "RESTARTED", f"the same run in {len(samples)} samples, found that it was started anew")
    if len(samples) < evidence.metadata.get("success_threshold", 1):
        return _differs(evidence, "TOO_FEW_SAMPLES", f"more samples, found {len(samples)}")
    restarts = last["restarts"]
    return replace(HOLDS, notes=(f"it was restarted {restarts} times by now",)) if restarts else HOLDS


def _judge_one(evidence: Evidence, sample: dict[str, Any]) -> Verdict:
    if not sample["exists"]:
        return _differs(evidence, "CONTAINER_MISSING", "a running container, found none of that name")
    states = [state for state in ("restarting", "paused", "dead") if sample[state]]
    if states or not sample["running"] or sample["status"] != "running":
        how = " and ".join(states) or shown(sample["status"], 40)
        ended = f", last exit code {sample['exit_code']}" if sample["exit_code"] is not None and not sample["paused"] else ""
        return _differs(evidence, "NOT_RUNNING", f"a running container, found it {how} ({sample['restarts']} restarts{ended})")
    return _judge_identity(evidence, sample) or _judge_health(evidence, sample)


def _judge_identity(evidence: Evidence, sample: dict[str, Any]) -> Verdict | None:
    digest, started = evidence.expected.get("image_digest"), evidence.expected.get("started_at")
    if digest is not None and digest not in (sample["image"], *sample["digests"]):
        return _differs(evidence, "IMAGE_DIFFERS", f"image {digest[:19]}…, found {shown(sample['image'], 20)}", _ANOTHER)
    if started is not None and started != sample["started_at"]:
        found = shown(sample["started_at"], 40)
        return _differs(evidence, "STARTED_ANEW", f"it started at {shown(started, 40)}, found {found}", _ANOTHER)
    return None


def _judge_health(evidence: Evidence, sample: dict[str, Any]) -> Verdict:
    """By default, whoever checks its own health must find it good; who does not is not asked."""
    wanted, found = evidence.expected.get("health"), sample["health"]
    if wanted in ("any", found) or (wanted is None and found in ("none", "healthy")):
        return HOLDS
    return _differs(evidence, "UNHEALTHY", f"health {wanted or 'healthy'}, found {shown(found, 40)}")


def _differs(evidence: Evidence, code: str, said: str, hint: str = _LOOK) -> Verdict:
    return Verdict(Outcome.FAILED, code, f"{shown(name_of(evidence), 80)}: expected {said}", hint)


def _fill(evidence: Evidence, seen: Seen) -> Filled | None:
    """This very run of this very container; nothing if it does not run."""
    sample = seen.facts["samples"][-1]
    if _judge_one(evidence, sample).outcome is not Outcome.VERIFIED:
        return None
    found = {"id": sample["id"], "started_at": sample["started_at"]}
    return found | ({"image_digest": sample["image"]} if _DIGEST.fullmatch(sample["image"]) else {}), evidence.metadata


_SECONDS: Schema = {"type": "number", "minimum": 0}

CONTAINER_RUNNING = Kind(
    {
        "id": {"type": "string", "pattern": f"^{_ID.pattern}$"},
        "name": {"type": "string", "pattern": f"^{_NAME.pattern}$"},
        "image_digest": {"type": "string", "pattern": f"^{_DIGEST.pattern}$"},
        "health": {"enum": [*HEALTHS]},
        "started_at": {"type": "string", "minLength": 1},
    },
    frozenset(),
    Lifetime.STEP,
    _check,
    _subject,
    _judge,
    metadata={"runtime": {"enum": [*RUNTIMES]}, "success_threshold": THRESHOLD, "interval": _SECONDS, "socket": {"not": {}}},
    together=({"properties": {"expected": {"oneOf": [{"required": ["id"]}, {"required": ["name"]}]}}},),
    retries=Retries.FAILURES,
    effort=Effort.WAIT,
    timeout=DEFAULT_TIMEOUT,
    deadline=30.0,
    fill=_fill,
    content=False,
)
