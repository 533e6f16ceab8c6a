"""Access of the monitor to the store that the ranks of a job share, on threads of Stepwatch."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any

from stepwatch import _core

_SECONDS_PER_LOOK = 0.2
_SECONDS_PER_WAIT = 3600.0
# torch stores its timeout as an int of milliseconds, and writes to standard error on expiry.
_AS_LONG_AS_IT_TAKES = timedelta(days=7)
# compare_set returns the value of a key, or the expected value if the key does not exist. With this text as both
# arguments it changes nothing and is one request, where check and get are three. The monitor never stores this text.
_ABSENT = "absent"
_jobs = 0


class JobStore:
    """Performs the requests of the monitor to the job's store, on daemon threads.

    Parameters
    ----------
    store : torch.distributed.Store
        Any class of store. If torch can clone it, a clone with its own connection is used, so that blocking calls of
        the trainer do not delay the monitor. On a second clone, if possible, this rank waits for its notification
        key instead of polling.

    Attributes
    ----------
    queue : _core.StoreQueue
        The queue to pass to the native monitor.
    prefix : str
        Prefix of every key: the same on all ranks, different for restarts and for several monitors of a job.
    """

    def __init__(self, store: Any) -> None:
        global _jobs
        self.queue = _core.StoreQueue(appends=_appends(store), listens=_can_listen(store))
        run, restart = (os.environ.get(f"TORCHELASTIC_{name}", "0") for name in ("RUN_ID", "RESTART_COUNT"))
        self.prefix = f"stepwatch/{run[:64]}/{restart}/{_jobs}"
        _jobs += 1  # all ranks create monitors in the same order
        self._store = store
        self._bell: str | None = None  # the key that a thread waits for
        self._threads = [
            threading.Thread(target=body, name=name, daemon=True)
            for body, name in ((self._serve, "stepwatch-store"), (self._listen, "stepwatch-bell"))
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        store = _own_connection(self._store)
        while not self.queue.closed:
            request = self.queue.next(_SECONDS_PER_LOOK)
            if request is None:
                continue
            try:
                request.answer(_perform(store, request))
            except Exception as error:  # e.g. network failure or closed store
                request.fail(f"the job's store: {error}")
        self._ring_own_bell(store)

    def _listen(self) -> None:
        connection = None
        while not self.queue.closed:
            request = self.queue.next_listen(_SECONDS_PER_WAIT)
            if request is None:
                continue
            try:
                connection = connection or self._store.clone()
                self._bell = request.key
                if not self.queue.closed:  # the closing thread reads _bell after closing the queue
                    connection.wait([request.key], _AS_LONG_AS_IT_TAKES)
                    connection.delete_key(request.key)
                request.answer(None)
            except Exception as error:
                request.fail(f"the job's store: {error}")
                if connection is None:
                    self.queue.stop_listening()
                    return
            finally:
                self._bell = None

    def _ring_own_bell(self, store: Any) -> None:
        # A thread that waits in torch at interpreter exit would abort the process.
        bell = self._bell
        if bell is None:
            return
        try:
            store.set(bell, "closed")
        except Exception:  # then the wait has failed as well
            pass

    def close(self) -> None:
        """Stop the threads; open requests fail."""
        self.queue.close()
        for thread in self._threads:
            thread.join(timeout=2.0)


def _perform(store: Any, request: _core.StoreRequest) -> str | None:
    if request.call == "get":
        value = store.compare_set(request.key, _ABSENT, _ABSENT).decode()
        return None if value == _ABSENT else value
    if request.call == "set_once":
        return store.compare_set(request.key, "", request.value).decode()
    if request.call == "set":
        store.set(request.key, request.value)
    elif request.call == "append":
        store.append(request.key, request.value)
    elif _is_extended(store):
        store.multi_set(request.keys, [request.value] * len(request.keys))
    else:
        for key in request.keys:
            store.set(key, request.value)
    return None


def _is_extended(store: Any) -> bool:
    # True if multi_set and append are native requests of the store.
    try:
        return store.has_extended_api()
    except AttributeError:  # torch 2.1 has no has_extended_api
        return False


def _appends(store: Any) -> bool:
    return _is_extended(store) and hasattr(store, "append")


def _can_listen(store: Any) -> bool:
    # A wait blocks all other calls of its client, so it needs its own connection. The server of TCPStore without libuv
    # slows down with every open connection.
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return hasattr(store, "clone") and getattr(store, "libuvBackend", False) is True


def _own_connection(store: Any) -> Any:
    try:
        return store.clone()
    except Exception:  # not supported by all classes and versions of torch
        return store


def find_job_store() -> JobStore | None:
    """Return the job's store from torch.distributed, or None in a job of one process.

    Returns
    -------
    JobStore or None
    """
    import torch

    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    if torch.distributed.get_world_size() <= 1:
        return None
    from torch.distributed import distributed_c10d

    return JobStore(distributed_c10d._get_default_store())
