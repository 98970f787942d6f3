"""What every torture shares: the recorder, and numbers from the run's seed."""

from random import Random

import pytest

from tests.faults.conftest import recorder

__all__ = ["recorder", "rng"]


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> Random:
    """Numbers of this test alone: which tests ran before it makes no difference."""
    return Random(f"{seed}:{request.node.name}")
