"""The life of a step, as one table.

A pair that is missing is refused, and nothing has changed. This is the only place where a step's state is decided.
"""

from __future__ import annotations

from enum import StrEnum

from agentos.errors import StepAlreadyCommittedError


class StepState(StrEnum):
    """Where a step is. Only `begun` can go on."""

    BEGUN = "begun"
    COMMITTED = "committed"
    ADOPTED = "adopted"
    ABANDONED = "abandoned"


class StepEvent(StrEnum):
    """What can happen to a step."""

    COMMIT = "commit"
    ADOPT = "adopt"
    ABANDON = "abandon"


TRANSITIONS = {
    (StepState.BEGUN, StepEvent.COMMIT): StepState.COMMITTED,
    (StepState.BEGUN, StepEvent.ADOPT): StepState.ADOPTED,
    (StepState.BEGUN, StepEvent.ABANDON): StepState.ABANDONED,
}

# The states in which a step is a checkpoint.
CHECKPOINT_STATES = frozenset({StepState.COMMITTED, StepState.ADOPTED})


def advance(step_id: str, state: StepState, event: StepEvent) -> StepState:
    """The state after `event`.

    Raises:
        StepAlreadyCommittedError: the step has ended; nothing changes.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise StepAlreadyCommittedError(
            f"step {step_id}: cannot {event.value}, it is {state.value} already",
            hint="begin another step; get_step() shows how this one ended",
            step_id=step_id,
            state=state.value,
        )
    return following
