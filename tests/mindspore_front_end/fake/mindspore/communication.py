"""Communication that is not initialised."""


def get_rank(group: str = "") -> int:
    """Raise as MindSpore does before `init`."""
    raise RuntimeError(f"communication is not initialised (group {group!r})")
