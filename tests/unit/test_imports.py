"""What `import agentos.core.checkpoints` costs: an agent pays for it at every restart.

Optional stacks, and what only a door or a first boot needs, are imported when they are used and not before.
Measured in fresh interpreters, because the one that runs the tests has loaded half of this already.
"""

import json
import subprocess
import sys

import pytest

NOT_LOADED = (
    # Dependencies that only some calls need.
    *("sqlite_utils", "tenacity", "click", "ulid"),
    # Extras and what may happen to be installed beside agentos.
    *("psycopg", "rich", "psutil", "httpx", "httpx2", "docker", "langgraph", "langchain_core", "mcp", "opentelemetry"),
    *("starlette", "uvicorn", "jinja2", "prometheus_client", "cryptography", "numpy", "yaml"),
    # Heavy corners of the standard library.
    *("asyncio", "concurrent.futures", "multiprocessing", "subprocess", "socket", "ssl", "selectors", "sqlite3"),
    *("http", "urllib.request", "email", "xml", "importlib.metadata", "unittest", "zipfile", "tarfile", "pydoc"),
)

# The public types are pydantic's dataclasses, and making one loads what pydantic looks for plugins with. That is the
# price of the types; what agentos loads beyond it is its own choice.
PRICE_OF_THE_TYPES = """
import orjson, pydantic, pydantic.dataclasses
pydantic.dataclasses.dataclass(type("T", (), {"__annotations__": {"x": int}}))
"""

# The doors, and everything a manager brings in only when it is made.
NOT_LOADED_OF_OURS = ("agentos.cli", "agentos.flow", "agentos.integrations", "agentos.web", "agentos.wiring")

PROGRAM = """
import json, sys
already = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - already)))
"""


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for a statement."""
    program = PROGRAM.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["agentos.core.checkpoints", "agentos"])
def test_nothing_optional_is_loaded_by_the_import(module):
    """Neither dependencies for rare calls, nor extras, nor heavy parts of the standard library."""
    ours = loaded_by(f"import {module}") - loaded_by(PRICE_OF_THE_TYPES)
    assert set() == ours & {*NOT_LOADED, *NOT_LOADED_OF_OURS}


def test_the_price_of_the_types_hides_nothing_that_is_named_as_optional():
    """Of the list above, pydantic loads only what reading the metadata of installed packages takes."""
    known = {"email", "importlib.metadata", "selectors", "socket", "zipfile"}
    assert loaded_by(PRICE_OF_THE_TYPES) & {*NOT_LOADED} <= known


def test_the_names_of_the_contract_are_there_all_the_same():
    """Laziness is not visible to whoever imports a name."""
    names = (
        "CheckpointManager, EvidenceVerifier, Evidence, EvidencePack, EvidenceType, VerificationStatus, Checkpoint, "
        "CheckpointError"
    )
    loaded_by(f"from agentos.core.checkpoints import {names}")
    loaded_by(f"from agentos import {names}")


def test_a_planted_import_is_noticed():
    """The measurement sees what a statement loads, also through another module."""
    assert {"http", "email"} <= loaded_by("import http.client")
