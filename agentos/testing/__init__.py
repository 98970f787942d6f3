"""Suites that other people can run over what they plug into agentos. They need pytest and nothing else.

from agentos.testing import StoreContract

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        with MyStore() as store:
            yield store
"""

import pytest

# Before they are imported, or a failure would not show what was compared.
pytest.register_assert_rewrite("agentos.testing.store_contract", "agentos.testing.store_inputs")

from agentos.testing.store_contract import StoreContract  # noqa: E402 - after the line above, on purpose

__all__ = ["StoreContract"]
