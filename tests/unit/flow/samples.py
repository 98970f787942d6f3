"""Checkpoints to test with."""

import asyncio

from agentos.flow.checkpoint import CheckpointData

DOCUMENT = {
    "checkpoint_id": "expensive_compute",
    "workflow_name": "data_pipeline",
    "inputs_hash": "a1b2c3d4e5f67890",
    "step_results": [{"name": "fetch_data", "success": True, "output": {"rows": 1000}, "duration_ms": 5234, "error": None}],
    "saved_at": "2025-12-20T15:30:00Z",
}


def checkpoint(checkpoint_id="a", saved_at="2025-12-20T15:30:00Z", results=()) -> CheckpointData:
    return CheckpointData(checkpoint_id, "pipeline", "a1b2c3d4e5f67890", tuple(results), saved_at)


def run(coroutine):
    return asyncio.run(coroutine)
