"""Names of modules and parameters as the user wrote them, without what wrappers put in."""

from __future__ import annotations

# The attributes under which FSDP1, activation checkpointing and torch.compile keep the module that they wrap.
_PUT_IN = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"})


def as_written(name: str) -> str | None:
    """Return a name without the parts that wrappers have put in, or None if it has none.

    Parameters
    ----------
    name : str
        As torch gives it, such as "layers.0._checkpoint_wrapped_module.fc".
    """
    parts = name.split(".")
    own = [part for part in parts if part not in _PUT_IN]
    return None if len(own) == len(parts) else ".".join(own)
