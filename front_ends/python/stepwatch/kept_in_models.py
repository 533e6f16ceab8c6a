"""Copying and pickling of monitor objects that users keep in modules and callbacks."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

# A builtin, so that it unpickles anywhere: accepts any arguments, and its result is false and iterates as empty.
_DO_NOTHING = "".format
_PLAIN = (bool, int, float, str, type(None))

_ANSWERS: dict[str, Any] = {
    "close": True,
    "flush": True,
    "latest": [],
    "refresh": "unchanged",
    "status": {
        "state": "OFF",
        "plan_id": 0,
        "step": 0,
        "collected": 0,
        "collecting_step": False,
        "output_dir": "",
        "fault": "",
        "ops": [],
    },
}


class ClosedSession:
    """Replaces the session in a copy: accepts every call, and returns the results of a closed session."""

    step = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: copy.copy(_ANSWERS.get(name))


class KeptInModels:
    """Makes copies and pickles of an object that do nothing.

    A copy is of the same class and has its own values for `_of_copies`. A pickle has to load where Stepwatch is not
    installed: it contains a `types.SimpleNamespace` with the numbers and texts of a copy, and methods that do nothing,
    because a method that is pickled by itself, such as `monitor.report`, is looked up by its name.
    """

    def _of_copies(self) -> dict[str, Any]:
        raise NotImplementedError

    def __copy__(self) -> Any:
        return self._copied(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._copied(memo)

    def _copied(self, memo: dict[int, Any] | None) -> Any:
        own = self._of_copies()
        kept = {name: value for name, value in vars(self).items() if name not in own}
        other = object.__new__(type(self))
        if memo is not None:
            memo[id(self)] = other
            kept = copy.deepcopy(kept, memo)
        vars(other).update(kept, **own)
        return other

    def __reduce__(self) -> Any:
        other = self._copied(None)
        state: dict[str, Any] = {}
        for name in (name for name in dir(other) if not name.startswith("_")):
            value = getattr(other, name)
            if value is other:
                state[name] = self
            elif callable(value):
                state[name] = _DO_NOTHING
            elif isinstance(value, (KeptInModels, *_PLAIN)):
                state[name] = value
        return SimpleNamespace, (), state
