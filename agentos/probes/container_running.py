"""Look how a container is, as its engine says.

An engine takes a name for the beginning of an id and the other way round, so what it answers with is compared with what was
asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from agentos.core.checkpoints.kinds.containers import DEFAULT_INTERVAL, name_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at, timed_out
from agentos.probes.engine import engine_says, not_understood, socket_of

_MOST_DIGESTS = 32


class ContainerRunning:
    """Facts: `samples`, each with `exists`, and if it does: identity, states, `health`, `restarts`, `exit_code`.

    Args:
        environ: what says where the engine listens.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Ask as often as is wanted."""
        return looked_at(lambda deadline: Seen(self._look(evidence, around, deadline)), around.timeout)

    def _look(self, evidence: Evidence, around: Surroundings, deadline: Deadline) -> dict[str, Any]:
        path = socket_of(evidence.metadata.get("runtime", "docker"), self._environ)
        samples: list[dict[str, Any]] = []
        for _ in range(evidence.metadata.get("success_threshold", 1)):
            if samples:
                _pause(evidence.metadata.get("interval", DEFAULT_INTERVAL), around, deadline)
            samples.append(_sample(evidence, path, around, deadline))
            if not samples[-1]["exists"]:
                break
        return {"samples": samples}


def _pause(seconds: float, around: Surroundings, deadline: Deadline) -> None:
    if deadline.left() <= seconds:
        raise timed_out("the next sample")
    if around.cancel is None:
        time.sleep(seconds)
    elif around.cancel.wait(seconds):
        raise CannotSee("CALLED_OFF", "the look was called off while it was under way")


def _sample(evidence: Evidence, path: str, around: Surroundings, deadline: Deadline) -> dict[str, Any]:
    answer = engine_says(path, f"/containers/{name_of(evidence)}/json", deadline, around.cancel)
    if answer is None:
        return {"exists": False}
    try:
        sample = _facts(answer)
    except (KeyError, TypeError) as error:
        raise not_understood(path, f"it lacks {error}") from error
    if not _is_meant(evidence, sample):
        return {"exists": False}
    wanted = evidence.expected.get("image_digest")
    if wanted is not None and wanted != sample["image"]:
        sample["digests"] = _digests(path, sample["image"], around, deadline)
    return sample


def _is_meant(evidence: Evidence, sample: dict[str, Any]) -> bool:
    if "id" in evidence.expected:
        return bool(sample["id"].startswith(evidence.expected["id"]))
    return bool(sample["name"] == evidence.expected["name"])


def _facts(answer: Any) -> dict[str, Any]:
    state = _typed(answer, "State", dict)
    health = state.get("Health") or {}
    exit_code, restarts = state.get("ExitCode"), answer.get("RestartCount")
    image = _typed(answer, "Image", str)
    return {
        "exists": True,
        "id": _typed(answer, "Id", str),
        "name": _typed(answer, "Name", str).lstrip("/"),
        "image": image if image.startswith("sha256:") else f"sha256:{image}",
        "digests": [],
        "started_at": _typed(state, "StartedAt", str),
        "status": _typed(state, "Status", str),
        "running": _typed(state, "Running", bool),
        **{name: state.get(name.capitalize()) is True for name in ("restarting", "paused", "dead")},
        "health": _typed(health, "Status", str) or "none" if health else "none",
        "restarts": restarts if type(restarts) is int else 0,
        "exit_code": exit_code if type(exit_code) is int else None,
    }


def _typed(answer: Any, key: str, kind: type) -> Any:
    value = answer[key]
    if type(value) is not kind:
        raise TypeError(f"{key} as {kind.__name__}")
    return value


def _digests(path: str, image: str, around: Surroundings, deadline: Deadline) -> list[str]:
    """The digests under which the image is known to registries; what a tag was pulled by is one of them."""
    answer = engine_says(path, f"/images/{image}/json", deadline, around.cancel)
    named = answer.get("RepoDigests") if isinstance(answer, dict) else None
    known = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    return [each.rpartition("@")[2] for each in known[:_MOST_DIGESTS]]
