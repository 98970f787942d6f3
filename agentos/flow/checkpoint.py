"""Checkpoints of workflows: the asynchronous store that workflow engines expect, with three implementations.

    FileCheckpointStore     one JSON file a checkpoint, for people to look at
    MemoryCheckpointStore   for tests
    RunCheckpointStore      on top of any run store of agentos.store

The names of this module are the interface; where they live is not.
"""

from agentos.flow.data import CheckpointData, compute_inputs_hash
from agentos.flow.errors import CheckpointIOError, CheckpointNotFoundError, CorruptCheckpointError, InputMismatchError
from agentos.flow.files import FileCheckpointStore
from agentos.flow.stores import CheckpointStore, MemoryCheckpointStore, RunCheckpointStore

__all__ = [
    "CheckpointData",
    "CheckpointIOError",
    "CheckpointNotFoundError",
    "CheckpointStore",
    "CorruptCheckpointError",
    "FileCheckpointStore",
    "InputMismatchError",
    "MemoryCheckpointStore",
    "RunCheckpointStore",
    "compute_inputs_hash",
]
