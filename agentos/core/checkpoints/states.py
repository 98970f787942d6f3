"""The state that `resume` gives back, in the shape that was asked for: a dict, or a typed state of the default's type."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.recovered import Recovery, Verdict
from agentos.core.checkpoints.snapshots import as_object, revive
from agentos.errors import InvalidInputError


class Wanted:
    """A default, checked before anything is looked at."""

    def __init__(self, default: Any) -> None:
        self._model = default if isinstance(default, type) else None
        if self._model is dict:
            self._model, default = None, {}
        if self._model is not None and not (is_dataclass(self._model) or hasattr(self._model, "__pydantic_serializer__")):
            raise InvalidInputError(
                f"default: a class must be a pydantic model or a dataclass, found {shown(self._model, 80)}",
                hint="give an instance, or a dict",
            )
        if self._model is None:
            # What could never be committed is refused now, not at the first step.
            codec.encode(as_object(default, "default"), "default")
            if type(default) is not dict:
                self._model = type(default)
        self._default = default

    def state(self, recovery: Recovery) -> Any:
        """The measured state; the default where nothing was ever committed. Nobody else holds what is returned."""
        if recovery.verdict is Verdict.FRESH or recovery.snapshot is None:
            return self._fresh()
        snapshot = codec.decode(codec.encode(recovery.snapshot))
        return snapshot if self._model is None else revive(snapshot, self._model)

    def _fresh(self) -> Any:
        if not isinstance(self._default, type):
            return self._default
        try:
            return self._default()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"default: {self._default.__name__} cannot be made without arguments: {error}", hint="give an instance instead"
            ) from error
