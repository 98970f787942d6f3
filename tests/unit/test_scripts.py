"""The scripts: what they decide, without building an environment.

Whether a whole environment comes up from nothing is what every fresh checkout shows; here it would take a network.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"


def load(name: str) -> ModuleType:
    """Load a script as the program it is, without running it."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def boot(monkeypatch, tmp_path):
    """The bootstrap, in a project of its own."""
    module = load("_boot")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.delenv("AGENTOS_VENV", raising=False)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "requirements.lock").write_text("click==8.5.1\n")
    return module


@pytest.fixture
def venv(boot):
    """An environment that looks finished: a Python and a stamp."""
    python = boot.python_of(boot.location())
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    boot.write_stamp(boot.location(), ["dev"])
    return boot.location()


@pytest.fixture
def lock(tmp_path):
    """An empty lock file, as it is while nothing is under way."""
    with (tmp_path / ".venv.lock").open("w+") as file:
        yield file


def said(stdout: str = "", returncode: int = 0) -> SimpleNamespace:
    return SimpleNamespace(stdout=stdout, returncode=returncode, args=["made-up"])


class TestRefusal:
    @pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13), (2, 7, 18)])
    def test_an_old_python_is_refused_and_named(self, boot, version):
        """The sentence says what is needed and what was found."""
        sentence = boot.refusal(version, "linux")
        assert "3.11" in sentence
        assert ".".join(map(str, version)) in sentence

    @pytest.mark.parametrize("platform", ["win32", "cygwin"])
    def test_windows_is_refused(self, boot, platform):
        """Whatever the Python."""
        assert "Windows" in boot.refusal((3, 13, 0), platform)

    @pytest.mark.parametrize("platform", ["linux", "darwin"])
    @pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (3, 20, 0), (4, 0, 0)])
    def test_everything_else_is_welcome(self, boot, version, platform):
        """Newer Pythons are not refused for being newer."""
        assert "" == boot.refusal(version, platform)

    @pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.glob("*.py")))
    def test_an_old_python_can_read_the_scripts_up_to_the_refusal(self, script):
        """Syntax of a newer Python would be a SyntaxError before anybody could say a sentence."""
        import ast

        ast.parse((SCRIPTS / script).read_text("utf-8"), feature_version=(3, 7))


class TestStamp:
    def test_a_finished_environment_is_ready(self, boot, venv):
        """Then nothing is run, and nothing is locked."""
        assert boot.is_ready(venv, ["dev"])
        assert boot.is_ready(venv, [])
        assert boot.python_of(venv) == boot.ensure("dev")

    def test_a_missing_environment_is_not_ready(self, boot):
        """Neither is one of which only the name exists."""
        assert not boot.is_ready(boot.location(), [])
        boot.location().mkdir()
        assert not boot.is_ready(boot.location(), [])

    def test_another_extra_has_to_be_installed(self, boot, venv):
        """What run.py made is not enough for test.py."""
        assert not boot.is_ready(venv, ["bench"])

    @pytest.mark.parametrize("name", ["pyproject.toml", "requirements.lock"])
    def test_a_change_of_what_is_to_be_installed_is_noticed(self, boot, venv, name):
        """The stamp is of the contents, not of the times."""
        (boot.ROOT / name).write_text("changed")
        assert not boot.is_ready(venv, ["dev"])

    def test_content_that_moves_between_the_files_is_noticed(self, boot, venv):
        """The files are told apart, not just strung together."""
        text = (boot.ROOT / "pyproject.toml").read_text()
        (boot.ROOT / "pyproject.toml").write_text("")
        boot.LOCK.write_text(text + boot.LOCK.read_text())
        assert not boot.is_ready(venv, ["dev"])

    def test_another_python_is_noticed(self, boot, venv, monkeypatch):
        """Compiled packages of one do not load in another."""
        monkeypatch.setattr(boot.sysconfig, "get_config_var", lambda name: "cpython-399-elsewhere")
        assert not boot.is_ready(venv, ["dev"])

    def test_a_copied_checkout_does_not_use_the_code_of_the_original(self, boot, venv, monkeypatch, tmp_path):
        """The environment that was copied along still points to where it was made."""
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("pyproject.toml", "requirements.lock"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
        monkeypatch.setattr(boot, "ROOT", copy)
        monkeypatch.setattr(boot, "LOCK", copy / "requirements.lock")
        assert not boot.is_ready(venv, ["dev"])

    @pytest.mark.parametrize("damage", ["", "[]", "{", '{"extras": 3}', "\0\0\0"])
    def test_a_damaged_stamp_is_no_stamp(self, boot, venv, damage):
        """It is made again, not believed and not stumbled over."""
        boot.stamp_of(venv).write_text(damage)
        assert not boot.is_ready(venv, [])

    def test_a_python_that_is_gone_is_noticed(self, boot, venv):
        """After an upgrade of the system the link leads nowhere."""
        boot.python_of(venv).unlink()
        boot.python_of(venv).symlink_to("/nonexistent/python")
        assert not boot.is_ready(venv, ["dev"])


class TestUnfinished:
    def test_what_a_killed_run_left_is_made_anew(self, boot, venv, lock):
        """Half a package can look whole to an installer; the mark in the lock file does not lie."""
        boot.mark(lock, boot.UNFINISHED)
        assert not boot.is_usable(venv, lock)

    def test_the_mark_is_set_before_anything_is_installed_and_taken_off_last(self, boot, venv, lock, monkeypatch):
        """Killed at any moment in between, the next run knows."""
        seen = []
        monkeypatch.setattr(boot, "is_usable", lambda *_: True)
        monkeypatch.setattr(
            boot, "install", lambda *_: seen.append((Path(lock.name).read_text(), boot.stamp_of(venv).exists()))
        )
        boot.build(venv, ["dev"], lock)
        assert [(boot.UNFINISHED, False)] == seen
        assert "" == Path(lock.name).read_text()
        assert boot.is_ready(venv, ["dev"])

    def test_a_failed_installation_leaves_no_stamp(self, boot, venv, lock, monkeypatch):
        """What failed once is tried again, from the start."""
        monkeypatch.setattr(boot, "is_usable", lambda *_: True)
        monkeypatch.setattr(boot, "install", lambda *_: boot.stop("no network"))
        with pytest.raises(SystemExit, match="no network"):
            boot.build(venv, ["dev"], lock)
        assert not boot.is_ready(venv, [])
        assert boot.UNFINISHED == Path(lock.name).read_text()

    def test_extras_that_are_there_stay(self, boot, venv, lock, monkeypatch):
        """run.py after test.py does not take the test tools away."""
        installed = []
        monkeypatch.setattr(boot, "is_usable", lambda *_: True)
        monkeypatch.setattr(boot, "install", lambda _, extras: installed.extend(extras))
        boot.build(venv, ["bench"], lock)
        assert ["bench", "dev"] == installed

    def test_two_runs_do_not_build_at_once(self, boot):
        """The second waits for the first, and the system drops the lock of one that was killed."""
        path = boot.ROOT / ".venv.lock"
        with boot.held_lock(boot.location()), path.open() as second, pytest.raises(BlockingIOError):
            boot.fcntl.flock(second, boot.fcntl.LOCK_EX | boot.fcntl.LOCK_NB)

    def test_an_installer_that_outlives_its_killed_parent_keeps_the_lock(self, boot):
        """It still writes into the environment; the next run has to wait for its end."""
        program = f"""
import sys
sys.path.insert(0, {str(SCRIPTS)!r})
import _boot, os, pathlib
with _boot.held_lock(pathlib.Path({str(boot.location())!r})):
    _boot.run(sys.executable, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.read({{}}, 1)")
"""
        reader, writer = os.pipe()
        with os.fdopen(writer, "w") as installer_waits:
            done = subprocess.run([sys.executable, "-c", program.format(reader)], pass_fds=[reader], check=False)
            os.close(reader)
            assert -signal.SIGKILL == done.returncode
            with (boot.ROOT / ".venv.lock").open() as second, pytest.raises(BlockingIOError):
                boot.fcntl.flock(second, boot.fcntl.LOCK_EX | boot.fcntl.LOCK_NB)
            installer_waits.write("go on")
        with (boot.ROOT / ".venv.lock").open() as third:
            boot.fcntl.flock(third, boot.fcntl.LOCK_EX)

    def test_a_folder_that_cannot_be_written_is_named(self, boot, monkeypatch):
        """As when root made the environment and somebody else runs the script."""
        monkeypatch.setattr(boot.os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied", "/there")))
        with (
            pytest.raises(SystemExit, match=r"/there cannot be written: denied.*AGENTOS_VENV"),
            boot.held_lock(boot.location()),
        ):
            pass


class TestInstallers:
    @pytest.mark.parametrize(
        ("words", "version"),
        [
            ("pip 23.0.1 from /usr/lib (python 3.11)", (23, 0)),
            ("WARNING: something\npip 22.3 from /x", (22, 3)),
            ("/usr/bin/python3: No module named pip", ()),
            ("", ()),
        ],
    )
    def test_the_version_of_pip_is_read(self, boot, words, version):
        """And no pip is older than every pip."""
        assert version == boot.pip_version(words)
        assert (version >= boot.OLDEST_PIP) == bool(version)

    @pytest.mark.parametrize(("words", "sentence"), [("pip 21.1 from /x", "pip is 21.1"), ("", "there is no pip")])
    def test_a_pip_that_is_too_old_or_missing_is_said(self, boot, venv, monkeypatch, words, sentence):
        """With what is needed and how to get it, when the environment cannot have one of its own."""
        monkeypatch.setattr(boot, "run", lambda *command: said(words, returncode=int("ensurepip" in command)))
        with pytest.raises(SystemExit, match=rf"{sentence}.*22\.3"):
            boot.pip(venv)

    def test_pip_comes_to_help_when_uv_fails(self, boot, venv, monkeypatch, capsys):
        """A machine whose index only pip knows still gets its environment."""
        ran = []

        def run(*command):
            ran.append(command)
            return said(returncode=len(ran) == 1)

        monkeypatch.setattr(boot, "find_uv", lambda _: Path("/there/uv"))
        monkeypatch.setattr(boot, "pip", lambda _: ["pip"])
        monkeypatch.setattr(boot, "run", run)
        boot.install(venv, ["dev"])
        assert [str(command[0]) for command in ran] == ["/there/uv", "pip"]
        assert all(f"{boot.ROOT}[dev]" in command and str(boot.LOCK) in command for command in ran)

    def test_without_a_network_both_installers_are_quoted(self, boot, venv, monkeypatch, capsys):
        """And the sentence that matters comes last."""
        monkeypatch.setattr(boot, "find_uv", lambda _: Path("/there/uv"))
        monkeypatch.setattr(boot, "pip", lambda _: ["pip"])
        monkeypatch.setattr(boot, "run", lambda *command: said(f"{command[0]} is lost", returncode=1))
        with pytest.raises(SystemExit, match="Is there a network"):
            boot.install(venv, [])
        shown = capsys.readouterr().err
        assert "uv is lost" in shown
        assert "pip is lost" in shown

    def test_habits_of_the_user_do_not_redirect_an_installation(self, boot, monkeypatch):
        """PIP_USER=1 would put the packages into the home folder, or refuse."""
        monkeypatch.setenv("PIP_USER", "1")
        program = "import os; print(os.environ['PIP_USER'])"
        assert "0" == boot.run(sys.executable, "-c", program).stdout.strip()

    def test_a_home_that_cannot_be_written_needs_no_cache(self, boot, monkeypatch):
        """System users often have none, and uv would refuse to run."""
        for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", "/nonexistent")
        assert ["--no-cache"] == boot.cache_options()
        monkeypatch.setenv("HOME", str(boot.ROOT))
        assert [] == boot.cache_options()


class TestCommands:
    @pytest.fixture(autouse=True)
    def _beside_each_other(self, monkeypatch):
        monkeypatch.syspath_prepend(str(SCRIPTS))

    @pytest.mark.parametrize("given", [[], ["--full"], ["-k", "rollback"], ["tests/unit", "-x"]])
    def test_tests_are_spread_over_two_processes(self, given):
        """By default, whatever else is asked for."""
        assert ["-n", "2", "--dist", "loadgroup"] == load("test").workers(given)

    @pytest.mark.parametrize("given", [["-n", "4"], ["-n0"], ["--pdb"], ["-s"], ["-p", "no:xdist"]])
    def test_some_options_need_one_process_or_choose_the_number(self, given):
        """A debugger cannot talk to a worker."""
        assert [] == load("test").workers(given)

    def test_all_checks_are_run_and_a_failure_is_the_end_result(self, monkeypatch, capsys):
        """The first failure does not hide the second."""
        check = load("check")
        monkeypatch.setattr(check._boot, "ensure", lambda *_: Path("/venv/python"))
        monkeypatch.setattr(check.subprocess, "run", lambda command, check: said(returncode="ruff" in command))
        monkeypatch.setattr(check.sys, "argv", ["check.py", "--full"])
        monkeypatch.setattr(check.os, "chdir", lambda _: None)
        with pytest.raises(SystemExit, match=r"failed: .*ruff check \.\nfailed: .*ruff format --check \."):
            check.main()
        shown = capsys.readouterr().out
        assert 4 == shown.count("$ ")
        assert "scripts/test.py --full" in shown

    def test_continuous_integration_runs_the_checks(self):
        """It is a program, it stops at errors, and it has no checks of its own."""
        program = ROOT / ".ci" / "run"
        assert os.access(program, os.X_OK)
        text = program.read_text("utf-8")
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "set -eu" in text
        assert "python3 scripts/check.py" in text
        assert subprocess.run(["bash", "-n", program], check=False).returncode == 0


class TestLock:
    def test_the_lock_names_versions_and_no_places(self):
        """Where packages come from is each machine's business."""
        lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
        strange = [line for line in lines if not re.fullmatch(r"[a-z0-9.-]+(\[[a-z0-9,-]+\])?==[^\s/:@]+( ; [^/:@]+)?", line)]
        assert [] == strange

    def test_every_declared_dependency_is_locked(self):
        """A range that was added without `scripts/lock.py` would float."""
        import tomllib

        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        extras = project["optional-dependencies"].values()
        declared = {re.split(r"[^\w.-]", name)[0] for group in (project["dependencies"], *extras) for name in group}
        locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()}
        assert set() == declared - locked


def test_all_processes_of_a_run_draw_from_one_seed(request: pytest.FixtureRequest, seed: int):
    """The one that the header prints, so that `--seed` repeats what any of them drew."""
    told = getattr(request.config, "workerinput", {"seed": seed})
    assert told["seed"] == seed == request.config.option.seed
