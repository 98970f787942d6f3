"""`agentos completion`: a shell that reads it completes verbs, options and the ids of what is in the registry."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import environment
from tests.unit.cli.program import agentos

# What bash does when the key is pressed.
PRESS = """
eval "$(agentos completion bash)"
COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
_agentos_completion agentos
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_verbs_options_and_ids(made: dict[str, str], db: Path, tmp_path: Path):
    """Of tasks, and of checkpoints by as much of them as was typed; nothing, and no error, where there is no registry."""

    def pressed(line: str) -> list[str]:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            ["bash", "-c", PRESS.format(line=line)],
            env=environment(PATH=programs), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (0, "") == (ended.returncode, ended.stderr)
        return ended.stdout.split()

    assert ["verify"] == pressed("agentos ver")
    assert ["--workspace"] == pressed("agentos run --wo")
    assert ["report-42"] == pressed(f"agentos finish --db {db} rep")
    assert made["good"] in pressed(f"agentos verify --db {db} {made['good'][:6]}")
    assert [] == pressed(f"agentos finish --db {tmp_path}/none.sqlite rep")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str):
    """It needs no registry."""
    ended = agentos("completion", shell)
    assert (0, "", True) == (ended.returncode, ended.stderr, "_AGENTOS_COMPLETE" in ended.stdout)


def test_another_shell_is_a_usage_error():
    """With those that there are."""
    ended = agentos("completion", "csh")
    assert 2 == ended.returncode
    assert "bash" in ended.stderr
