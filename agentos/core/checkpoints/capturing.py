"""Evidence that is measured instead of claimed: `Evidence.capture_*` look now and claim what was seen.

Whoever captures cannot be wrong about a hash. What could not be seen is not claimed: it raises, and says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos._fork import importing

if TYPE_CHECKING:
    from agentos.core.checkpoints.models import Evidence


class Captures:
    """What `Evidence` can make by looking. Each takes a `description`, and a `base_path` from which relative paths start.

    Each raises `EvidenceUnavailableError` for what is not there or cannot be seen, with the reason.
    """

    @classmethod
    def capture_file(cls, path: str | Path, *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Measure the file now and claim what was measured: its SHA-256 and size."""
        return _captured("file_content", path, description, base_path=base_path)

    @classmethod
    def capture_git(cls, repo: str | Path = ".", *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Look where the repository stands now and claim that: its commit, and its branch if it is on one.

        That nothing uncommitted lies around is another claim, which needs nothing measured: `git_clean`.
        """
        return _captured("git_commit", repo, description, base_path=base_path)

    @classmethod
    def capture_prefix(cls, path: str | Path, *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Measure what the file holds by now, and claim that it stays the beginning of it: for files that are appended to."""
        return _captured("file_beginning", path, description, base_path=base_path)


def _captured(what: str, *arguments: Any, base_path: str | Path | None) -> Evidence:
    with importing:
        from agentos import wiring  # noqa: PLC0415 - looking at the world is wired in lazily
        from agentos.core.checkpoints import wanted  # noqa: PLC0415 - it is about evidence, which is made of this

    return wiring.captured(getattr(wanted, what)(*arguments), base_path)
