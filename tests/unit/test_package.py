"""What a user gets who installs agentos: a wheel, in an empty environment, far from any checkout.

The wheel is built from the checkout, and once more from the sdist; both must carry the SQL files, and both must work.
If the dependencies cannot be fetched, those of the environment that runs the tests serve: the wheel is the point.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# One worker builds and installs; the fixtures below are too slow to be made twice.
pytestmark = pytest.mark.xdist_group("package")


def run(*command: str | Path, cwd: Path) -> str:
    # Without the paths of whoever runs the tests, which may lead back to a checkout.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(target: str, source: Path, into: Path) -> Path:
    """Build with the backend itself, which needs no network and no environment of its own."""
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, cwd=source)
    [built] = into.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_of_sdist(sdist, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    # Not by tarfile: some releases of 3.11 lack the filter without which later ones warn.
    run("tar", "-xf", sdist, cwd=folder)
    [source] = folder.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel-of-sdist"))


@pytest.fixture(scope="module", params=["wheel", "wheel_of_sdist"])
def bin_folder(request, tmp_path_factory):
    """The commands of an environment that holds the wheel, what it depends on, and nothing else."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv.parent)
    install(venv, request.getfixturevalue(request.param))
    return venv / "bin"


def install(venv: Path, wheel: Path) -> None:
    constrained = [str(wheel), "--constraint", str(ROOT / "requirements.lock")]
    # First from the cache, which the environment that runs the tests has filled: it is quick, and needs no network.
    for options in (["--offline", *constrained], constrained):
        if try_install(venv, *options):
            return
    assert try_install(venv, "--no-deps", "--no-index", str(wheel))
    # A folder named in a .pth file is searched, but its own .pth files, such as that of the checkout, are not read.
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")


def try_install(venv: Path, *options: str) -> bool:
    python = str(venv / "bin" / "python")
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None and "--offline" in options:
        return False  # pip has no such thing
    program = [uv, "pip", "install", "--python", python] if uv else [sys.executable, "-m", "pip", "--python", python, "install"]
    try:
        # A network that swallows packets is no network; the limit leaves room for what comes after.
        return subprocess.run([*program, *options], capture_output=True, check=False, timeout=90).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_carries_the_package_and_its_sql(wheel):
    """Every source file, the mark of a typed package, and the SQL where installed code looks for it."""
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "agentos").rglob("*") if path.suffix in {".py", ".sql"}}
    migrations = {f"agentos/{path.relative_to(ROOT)}" for path in (ROOT / "store" / "migrations").rglob("*") if path.is_file()}
    assert "agentos/store/migrations/sqlite/schema_v30_recovery.sql" in migrations
    assert set() == (package | migrations | {"agentos/py.typed"}) - names(wheel)


def test_the_wheel_carries_nothing_else(wheel):
    """No tests, no scripts, no second `store` package, no registry that somebody left in the checkout."""
    tops = {name.partition("/")[0] for name in names(wheel)}
    assert {"agentos", f"agentos_recovery-{PROJECT['version']}.dist-info"} == tops
    assert [] == [name for name in names(wheel) if name.endswith((".pyc", ".sqlite", ".sqlite-wal", ".sqlite-shm"))]


def test_the_license_goes_along(wheel):
    """As the license asks."""
    assert any(name.endswith("licenses/LICENSE") for name in names(wheel))


def test_the_sdist_makes_the_same_wheel(wheel, wheel_of_sdist):
    """Whoever builds from source gets what everybody gets."""
    assert names(wheel) == names(wheel_of_sdist)


def test_the_package_of_another_project_is_not_taken(wheel):
    """The plain name belongs to somebody else: installing that would run their code."""
    assert wheel.name.startswith("agentos_recovery-")
    assert PROJECT["name"] == "agentos-recovery"


PROGRAM = """
import json, pathlib
import agentos
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.store import ensure_migrations

ensure_migrations("registry.sqlite")
manager = CheckpointManager("registry.sqlite")
pathlib.Path("report.txt").write_text("written")
step = manager.begin_step("report-42", "tool_executed", {"done": ["report.txt"]})
proof = Evidence(EvidenceType.ARTIFACT_EXISTS, "The report", {"path": "report.txt", "type": "file"})
checkpoint = manager.commit_step(step, EvidencePack([proof]))
state = manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
print(json.dumps({"file": agentos.__file__, "verified": checkpoint.verified, "state": state}))
"""


def test_an_installed_agentos_commits_and_rolls_back(bin_folder, tmp_path):
    """From its own files, not from those of the checkout."""
    said = json.loads(run(bin_folder / "python", "-P", "-c", PROGRAM, cwd=tmp_path))
    assert Path(said["file"]).is_relative_to(bin_folder.parent)
    assert said["verified"] is True
    assert {"done": ["report.txt"]} == said["state"]


@pytest.mark.parametrize("command", [["agentos"], ["python", "-P", "-m", "agentos"]], ids=["command", "module"])
def test_the_command_says_its_version(bin_folder, tmp_path, command):
    """The number of the package that was installed."""
    said = run(bin_folder / command[0], *command[1:], "--version", cwd=tmp_path)
    assert PROJECT["version"] in said


def test_the_command_migrates_a_database(bin_folder, tmp_path):
    """With the SQL files of the wheel: there is no checkout anywhere near."""
    run(bin_folder / "agentos", "migrate", "--db", "x.sqlite", cwd=tmp_path)
    connection = sqlite3.connect(tmp_path / "x.sqlite")
    try:
        applied = connection.execute("select number from schema_version where component = 'registry'").fetchall()
    finally:
        connection.close()
    assert (30,) in applied
