"""Secrets in files that only their user can read."""

from __future__ import annotations

import os
import stat

_BYTES_MAX = 4096


class PrivateFileError(Exception):
    """The file is unusable; the text names the file and never its content."""


def read_private_file(path: str) -> str:
    """Return the one line of a file of this user, or of root, with mode 0600 or 0400.

    Parameters
    ----------
    path : str

    Returns
    -------
    str
        Without surrounding blanks.

    Raises
    ------
    PrivateFileError
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise PrivateFileError(f"cannot open {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        node = os.fstat(descriptor)
        if not stat.S_ISREG(node.st_mode):
            raise PrivateFileError(f"{path} is not a regular file")
        if node.st_uid not in (os.geteuid(), 0) or node.st_mode & 0o077:
            raise PrivateFileError(f"{path} must belong to this user and have mode 0600 or 0400")
        content = file.read(_BYTES_MAX + 1)
    text = content.decode("utf-8", "replace").strip()
    if not text or len(content) > _BYTES_MAX or any(not character.isprintable() for character in text):
        raise PrivateFileError(f"{path} must contain one line of printable characters, at most {_BYTES_MAX} bytes")
    return text
