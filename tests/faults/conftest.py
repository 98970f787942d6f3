"""The recorder, built once per run of the tests; where it cannot be built, what needs it is skipped with the reason."""

import pytest

from tests.faults.record import Recorder, RecorderUnavailableError


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """The library that records calls and injects faults."""
    try:
        return Recorder.build(tmp_path_factory.getbasetemp() / "recorder")
    except RecorderUnavailableError as reason:
        pytest.skip(str(reason))
