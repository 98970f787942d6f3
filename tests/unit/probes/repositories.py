"""Real repositories, made by the real git."""

from __future__ import annotations

import subprocess
from pathlib import Path

ALONE = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=ALONE, capture_output=True, check=check)
    return done.stdout.decode().strip()


def repository(folder: Path, *files: str, options: tuple[str, ...] = ()) -> str:
    """A repository with one commit on `main`, which holds these files; the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main", *options)
    for name in files or ("a",):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    return committed(folder)


def committed(folder: Path) -> str:
    """Everything there is, in one more commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=m")
    return git(folder, "rev-parse", "HEAD")
