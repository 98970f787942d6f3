"""Make the project's own environment in `.venv`, from nothing but python3 and pip.

Rules:
- Only the standard library, and only syntax that old Pythons can read: they must get a sentence, not a SyntaxError.
- Nothing is written but the environment and its lock file. No root, no activation, no change to the system's Python.
- Running it again is cheap, running two at once is safe, and what a killed run left behind is made anew.

Limits: it cannot install a newer Python, and the first run needs a package index that pip or uv can reach.
"""

import sys

OLDEST_PYTHON = (3, 11)


# Quoted types: old Pythons evaluate this signature, and know neither of them.
def refusal(version: "tuple[int | str, ...]", platform: str) -> str:
    """Say why agentos cannot run here, or return an empty string."""
    if platform.startswith(("win", "cygwin")):
        return "agentos does not run on Windows. Use Linux (WSL will do); macOS works on a best-effort basis."
    if tuple(version[:2]) < OLDEST_PYTHON:
        found = ".".join(str(part) for part in version[:3])
        return f"agentos needs Python 3.11 or newer, and this is {found}. Run this script with a newer one."
    return ""


if refusal(sys.version_info, sys.platform):
    # Before the rest of the file is even looked at: it imports and annotates what old Pythons do not have.
    sys.exit(refusal(sys.version_info, sys.platform))

import contextlib  # noqa: E402  # after the refusal, on purpose; so are those below
import fcntl  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shlex  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import sysconfig  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NoReturn, TextIO  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
OLDEST_PIP = (22, 3)  # the first with --python
UNFINISHED = "unfinished\n"


def ensure(*extras: str) -> Path:
    """Return the Python of an environment in which agentos and these extras are installed."""
    venv = location()
    if not is_ready(venv, extras):
        with held_lock(venv) as lock:
            if not is_ready(venv, extras):  # whoever held the lock before may have done it
                build(venv, extras, lock)
    return python_of(venv)


def ensure_uv() -> Path:
    """Return uv, without installing agentos: its pins may be what is about to be repaired."""
    venv = location()
    with held_lock(venv) as lock:
        if not is_usable(venv, lock):
            create(venv, lock)
        uv = find_uv(venv) or fetch_uv(venv)
    if uv is None:
        stop("uv could not be installed; pip said why above")
    return uv


def become(*command: str | Path) -> NoReturn:
    """Run the command in place of this process, so that its exit code and its signals are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], [str(part) for part in command])  # noqa: S606  # there is no shell to go through


def location() -> Path:
    return ROOT / os.environ.get("AGENTOS_VENV", ".venv")


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


# The stamp says what the environment was made for. It is written last, and removed before anything is changed.


def fingerprint() -> dict[str, str]:
    """What an environment depends on: this place and Python, and what is to be installed."""
    inputs = hashlib.sha256()
    for path in (ROOT / "pyproject.toml", LOCK):
        inputs.update(path.read_bytes() if path.exists() else b"")
        inputs.update(b"\0")
    return {"root": str(ROOT), "abi": str(sysconfig.get_config_var("SOABI")), "inputs": inputs.hexdigest()}


def read_stamp(venv: Path) -> dict[str, object]:
    """Return what was stamped; a missing or unreadable stamp is an empty one."""
    try:
        stamp = json.loads(stamp_of(venv).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, extras: Sequence[str]) -> None:
    draft = stamp_of(venv).with_suffix(".draft")
    draft.write_text(json.dumps({**fingerprint(), "extras": sorted(extras)}), "utf-8")
    draft.replace(stamp_of(venv))  # readers do not take the lock


def stamp_of(venv: Path) -> Path:
    return venv / "agentos.json"


def is_ready(venv: Path, extras: Sequence[str]) -> bool:
    stamp = read_stamp(venv)
    installed = stamp.pop("extras", [])
    return (
        stamp == fingerprint()
        and isinstance(installed, list)
        and set(extras) <= set(installed)
        and os.access(python_of(venv), os.X_OK)
    )


def is_usable(venv: Path, lock: TextIO) -> bool:
    """Tell whether packages may be installed over what is there; if not, it is made anew."""
    lock.seek(0)
    if lock.read() == UNFINISHED:
        return False
    here = fingerprint()
    stamp = read_stamp(venv)
    if stamp and any(stamp.get(key) != here[key] for key in ("root", "abi")):
        return False
    ask = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"
    try:
        answer = run(python_of(venv), "-c", ask)
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout.strip() == here["abi"]


# Building.


def build(venv: Path, extras: Sequence[str], lock: TextIO) -> None:
    say(f"preparing {venv.name} (only when something changed; the first time needs the network)")
    if not is_usable(venv, lock):
        create(venv, lock)
    # What stays valid is not taken away: run.py must not undo what test.py installed.
    kept = read_stamp(venv).get("extras", [])
    wanted = sorted({*extras, *(kept if isinstance(kept, list) else [])})
    stamp_of(venv).unlink(missing_ok=True)
    # A kill between (1) and (3) can leave half a package that installers take for a whole one.
    mark(lock, UNFINISHED)  # (1)
    install(venv, wanted)  # (2)
    write_stamp(venv, wanted)  # (3)
    mark(lock, "")


def create(venv: Path, lock: TextIO) -> None:
    mark(lock, UNFINISHED)
    # Without pip, because Debian's Python has no ensurepip unless python3-venv is installed.
    made = run(interpreter(venv), "-m", "venv", "--clear", "--without-pip", venv)
    if made.returncode:
        stop(f"{venv} could not be made by python -m venv", made)
    mark(lock, "")


def install(venv: Path, extras: Sequence[str]) -> None:
    what = [*constraints(), "--editable", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)]
    attempts = []
    uv = find_uv(venv) or fetch_uv(venv)
    if uv is not None:
        attempts.append(run(uv, "pip", "install", *cache_options(), "--python", python_of(venv), *what))
        if attempts[-1].returncode == 0:
            return
        say("uv could not install the packages; trying pip, which takes longer")
    attempts.append(run(*pip(venv), "install", *what))
    if attempts[-1].returncode:
        stop(
            "the packages agentos needs could not be installed. Is there a network? Otherwise point pip at packages on "
            "this machine (PIP_FIND_LINKS, PIP_NO_INDEX), and run this again",
            *attempts,
        )


def constraints() -> list[str]:
    return ["--constraint", str(LOCK)] if LOCK.exists() else []


def find_uv(venv: Path) -> Path | None:
    beside = venv / "bin" / "uv"
    found = beside if os.access(beside, os.X_OK) else shutil.which("uv")
    return Path(found) if found else None


def fetch_uv(venv: Path) -> Path | None:
    fetched = run(*pip(venv), "install", *constraints(), "uv")
    if fetched.returncode:
        say(f"uv could not be installed: {last_line(fetched.stdout)}")
        return None
    return venv / "bin" / "uv"


def cache_options() -> list[str]:
    """Do without a cache where the home folder cannot be written, as for system users: uv would refuse to run."""
    home = os.path.expanduser("~")  # Path.home() raises where there is none
    chosen = os.environ.get("UV_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return [] if chosen or os.access(home, os.W_OK) else ["--no-cache"]


def pip(venv: Path) -> list[str]:
    """Return a pip that installs into the environment: the system's, or one unpacked into the environment."""
    theirs = [str(interpreter(venv)), "-m", "pip"]
    version = pip_version(run(*theirs, "--version").stdout)
    if version >= OLDEST_PIP:
        return [*theirs, "--python", str(python_of(venv))]
    if run(python_of(venv), "-m", "ensurepip").returncode:
        found = f"pip is {version[0]}.{version[1]}" if version else "there is no pip"
        stop(
            f"{found} for {theirs[0]}, and agentos needs pip 22.3 or newer to install its packages. "
            "Install or upgrade it (on Debian and Ubuntu: apt install python3-pip), and run this again"
        )
    return [str(python_of(venv)), "-m", "pip"]


def pip_version(said: str) -> tuple[int, ...]:
    """Read `pip 23.0.1 from …`; anything else is no pip, and older than every version."""
    numbers = re.search(r"^pip (\d+)\.(\d+)", said, re.MULTILINE)
    return tuple(int(part) for part in numbers.groups()) if numbers else ()


def interpreter(venv: Path) -> Path:
    """Return the Python that runs this; the one beneath it when that is the environment about to be replaced."""
    inside = Path(sys.prefix).resolve() == venv.resolve()
    return Path(getattr(sys, "_base_executable", sys.executable) if inside else sys.executable)


# The lock lies beside the environment, because making the environment anew empties it.


@contextlib.contextmanager
def held_lock(venv: Path) -> Iterator[TextIO]:
    """Hold the only right to change the environment; the system takes it back from the dead, however they died."""
    path = venv.with_name(f"{venv.name}.lock")
    try:
        if venv.exists() and not os.access(venv, os.W_OK):
            raise PermissionError(13, "not writable", str(venv))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        stop(
            f"{error.filename or path} cannot be written: {error.strerror}. If another user made it, remove it; "
            "or name another folder for the environment in AGENTOS_VENV"
        )
    # Installers inherit it: one that outlives its killed parent still writes, and the next run must wait for it.
    os.set_inheritable(descriptor, True)  # noqa: FBT003  # it takes no keywords
    with os.fdopen(descriptor, "r+", encoding="utf-8") as lock:
        take(lock)
        yield lock


def take(lock: TextIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another run is preparing the environment; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:  # some network file systems
        say(f"this file system has no locks ({error.strerror}): do not run two of these at once")


def mark(lock: TextIO, text: str) -> None:
    lock.seek(0)
    lock.truncate()
    lock.write(text)
    lock.flush()


# Talking to programs and people.


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a program quietly; what it said is shown only when it mattered."""
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **settings()},
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def settings() -> dict[str, str]:
    """Return the variables under which pip and uv work here as they do elsewhere."""
    return {
        # Habits of a user that would redirect or stop an installation.
        "PIP_USER": "0",
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # The list of authorities inside uv lacks those of a company's proxy; the system's usually has them.
        "UV_SYSTEM_CERTS": os.environ.get("UV_SYSTEM_CERTS", "1"),
    }


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def say(text: str) -> None:
    print(f"agentos: {text}", file=sys.stderr, flush=True)


def stop(text: str, *failed: "subprocess.CompletedProcess[str]") -> NoReturn:
    """End with what the programs said, and the sentence that matters last."""
    for attempt in failed:
        print(f"$ {shlex.join(attempt.args)}\n{attempt.stdout.rstrip()}\n", file=sys.stderr)
    sys.exit(f"agentos: {text}.")
