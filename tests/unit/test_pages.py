"""The pages that are generated are what the program says of itself today, and the script on one of them does what it says."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import environment, run
from tests.unit.test_docs import ROOT, blocks

PAGE = "docs/specs/COMMAND_LINE.md"


def test_no_generated_page_is_stale():
    """`python3 scripts/pages.py` writes it anew; it is never edited by hand."""
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts" / "pages.py", "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (0, "") == (ended.returncode, ended.stdout), ended.stderr


def test_a_page_that_is_not_what_it_would_be_is_stale(tmp_path: Path):
    """Missing, or changed by one letter: said, with what to do; and written anew it is not."""
    code = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from generated.program import main
root, page = Path(sys.argv[2]), Path(sys.argv[2], sys.argv[3])
page.parent.mkdir(parents=True)
print(main(root, ["--check"]), page.exists())
print(main(root, []), main(root, ["--check"]))
page.write_text(page.read_text().replace("verb", "word", 1))
print(main(root, ["--check"]), main(root, ["--nonsense"]))
"""
    said = [line for line in run(code, ROOT / "scripts", tmp_path, PAGE).splitlines() if line[0].isdigit()]
    assert ["1 False", "0 0", "1 2"] == said


def test_the_script_of_the_page_runs_and_runs_again(tmp_path: Path):
    """The second time every line is skipped, and nothing changes."""
    [script] = blocks(ROOT / PAGE, "bash")
    told = environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for skipped in (0, 3):
        ended = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=told, capture_output=True, text=True, check=False, timeout=60
        )
        assert (0, skipped) == (ended.returncode, ended.stderr.count("skipped, it is done")), ended.stderr
        assert "# Report\nA better sentence.\n" == (tmp_path / "work" / "report.md").read_text()
