"""Temporary replacement of attributes of modules and classes."""

from __future__ import annotations

from typing import Any


class Patches:
    """Records replaced attributes, and restores them in reverse order."""

    def __init__(self) -> None:
        self._places: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, ours: Any) -> None:
        """Replace an attribute in the `__dict__` of a module or a class.

        Parameters
        ----------
        owner : module or type
        name : str
        ours : object
            The new value in the `__dict__`: a static method of a class as `staticmethod(...)`.
        """
        self._places.append((owner, name, owner.__dict__[name], ours))
        setattr(owner, name, ours)

    def has(self, owner: Any, name: str) -> bool:
        """Return whether an attribute is among those replaced."""
        return any(place[0] is owner and place[1] == name for place in self._places)

    def remove(self) -> None:
        """Restore the attributes, except those that other code has replaced meanwhile."""
        while self._places:
            owner, name, original, ours = self._places.pop()
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, original)
