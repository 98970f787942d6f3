"""No fork inherits the connection of a probe, and no fork waits long for one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from agentos.core.checkpoints.observing import Observation, Unseen
from agentos.probes.fork_gate import GATE, ForkGate
from tests.unit.probes.databases import observe, writing

FORK_DURING_A_PROBE = """
import os, sys, threading, time
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Surroundings
from agentos.probes import PROBES
claim = Evidence("db_row", "slow", {"table": "slow", "where": {"n": -1}}, {"db_path": sys.argv[1]})
answers = []
probe = threading.Thread(target=lambda: answers.append(PROBES["db_row"].observe(claim, Surroundings("/", timeout=60))))
probe.start()
inherited = 0
for _ in range(20):
    time.sleep(0.01)
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        names = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]
        os._exit(sys.argv[1] in names)
    waited = time.monotonic() - started
    inherited += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert waited < 5, waited
probe.join()
print(inherited, answers[0].facts["candidates"])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc here")
def test_a_fork_never_inherits_the_connection_of_a_probe(base):
    """Twenty forks in the middle of a long scan: none sees the database open, none waits long, and the scan gets its answer."""
    with writing(base / "db", "delete") as writer:
        writer.executescript(
            "create table t(n);"
            "insert into t with recursive c(i) as (select 1 union all select i + 1 from c limit 700) select i from c;"
            "create view slow as select a.n + b.n as n from t a, t b"
        )
    command = [sys.executable, "-W", "ignore", "-c", FORK_DURING_A_PROBE, str(base / "db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["0", "0"]


def test_a_long_look_makes_room_for_a_fork(look, base):
    """Whoever forks waits for the look to step aside, not for its end."""
    with writing(base / "db", "delete") as writer:
        writer.executescript(
            "create view t(id, v) as with recursive n(i) as (select 1 union all select i + 1 from n) select -i, i from n"
        )
    answers: list[Observation] = []
    probe = threading.Thread(target=lambda: answers.append(observe(look, timeout=2.0)))
    probe.start()
    while not GATE._inside:
        time.sleep(0.001)
    started = time.monotonic()
    GATE.before_fork()
    waited = time.monotonic() - started
    GATE.after_fork()
    probe.join()
    assert waited < 1
    assert isinstance(answers[0], Unseen)
    assert answers[0].code == "TIMED_OUT"


def test_a_thread_that_forks_from_inside_does_not_wait_for_itself():
    """Better a connection that is inherited than a process that hangs."""
    gate = ForkGate()
    with gate.inside():
        gate.before_fork()
        gate.after_fork()
    assert not gate.wanted
