"""What every test shares: how much to do, and from which seed.

A normal run is quick enough to be run after every change; `--full` runs the same tests with the large counts.
Whatever is drawn at random comes from `--seed`, which the header of every run prints: a failure can be run again.
Fixtures about agentos itself live beside the tests that use them.
"""

import os
import random
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

# Several times what the slowest crash loop takes on two busy cores.
FULL_TIMEOUT_S = 1800


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of this project."""
    group = parser.getgroup("agentos")
    group.addoption("--full", action="store_true", help="large counts: more crashes, more examples, more processes")
    group.addoption("--seed", type=int, default=None, help="the seed of everything random (default: a new one)")


# First, because pytest-timeout and Hypothesis read their options in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settle the seed: in a worker process it is that of the run."""
    option = config.option
    if option.seed is None:
        option.seed = getattr(config, "workerinput", {}).get("seed")
    if option.seed is None:
        option.seed = random.SystemRandom().randrange(2**32)
    if option.full and getattr(option, "timeout", 0) is None:  # no such option if pytest-timeout is switched off
        option.timeout = FULL_TIMEOUT_S
    configure_hypothesis(config)
    # A run in the background is deaf to what a terminal sends, and so is what it starts: some tests are about that.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the seed to a worker process before it starts."""
    node.workerinput["seed"] = node.config.option.seed


def configure_hypothesis(config: pytest.Config) -> None:
    """Draw examples from our seed, and leave nothing of Hypothesis in the tree."""
    # It keeps tables about Unicode even without a database of examples.
    home = config.rootpath / ".pytest_cache" / "hypothesis"
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(home))
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(config.option.seed)

    from hypothesis import HealthCheck, settings

    # Elsewhere a slow machine must not fail a test: pytest-timeout is the limit. Examples are replayed by seed.
    common = settings(deadline=None, database=None, derandomize=False, print_blob=True)
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile("normal", common, max_examples=50, suppress_health_check=slow)
    settings.register_profile("full", common, max_examples=1000, suppress_health_check=slow)
    settings.load_profile("full" if config.option.full else "normal")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out most planted faults of a normal run, unless it asks for tests by a word: each comes up every third time."""
    option = config.option
    if option.full or option.keyword:
        return
    left_out = {
        item
        for item in items
        if item.get_closest_marker("planted") and random.Random(f"{option.seed}:{item.nodeid}").random() > 1 / 3
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is needed to repeat the run."""
    mode = "full" if config.option.full else "normal"
    return f"agentos: {mode} run, --seed={config.option.seed}, SQLite {sqlite3.sqlite_version}"


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the large counts are wanted."""
    return bool(request.config.option.full)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run; the same in every worker process."""
    return int(request.config.option.seed)


@pytest.fixture(scope="session")
def count(full: bool) -> Callable[[int, int], int]:
    """Choose between the count of a normal run and that of a full one: `count(20, 2000)`."""
    return lambda normal, large: large if full else normal
