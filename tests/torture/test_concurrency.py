"""Eight processes commit on one task: no error, and the numbers are 1 to N exactly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from tests.support import start

Count = Callable[[int, int], int]

WRITER = """
import logging, sys
from agentos import CheckpointManager
from tests.support import exists
# That several processes write is the point here; the advice about older SQLite is not.
logging.getLogger("agentos.store").setLevel(logging.ERROR)
db, base, steps, durability = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
with CheckpointManager(db, base, durability=durability) as manager:
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = []
    for n in range(steps):
        step = manager.begin_step("t", "tool_executed", {"n": n})
        checkpoint = manager.commit_step(step, exists("out.txt"))
        assert checkpoint.verified
        numbers.append(checkpoint.sequence_number)
print(*numbers)
"""


@pytest.mark.parametrize("durability", ["full"])
def test_eight_processes_commit_on_one_task(tmp_path: Path, count: Count, durability: str):
    """No writer sees an error, each sees its own numbers grow, and together they are 1 to N, without a gap or a repeat."""
    (tmp_path / "out.txt").write_text("one")
    db, total = tmp_path / "registry.sqlite", count(2000, 10_000)
    writers = [start(WRITER, db, tmp_path, total // 8, durability) for _ in range(8)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdin is not None
            assert "ready\n" == writer.stdout.readline()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        answers = [writer.communicate(timeout=600) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert [""] * 8 == [errors for _, errors in answers]
    drawn = [[int(number) for number in said.split()] for said, _ in answers]
    assert all(numbers == sorted(numbers) for numbers in drawn)
    assert list(range(1, total + 1)) == sorted(number for numbers in drawn for number in numbers)
    with CheckpointManager(db, tmp_path) as manager:
        assert list(range(total, 0, -1)) == [each.sequence_number for each in manager.list_checkpoints("t", total + 1)]
        assert [] == manager.list_open_steps("t")
        last = manager.get_last_verified_checkpoint("t")
    assert last is not None
    assert total == last.sequence_number
