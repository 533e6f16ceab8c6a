"""The store that the ranks of a job share, lent to the monitor by a thread of ours."""

from __future__ import annotations

import os
import threading
from typing import Any

from stepwatch import _core

_SECONDS_PER_LOOK = 0.2
_jobs = 0


class JobStore:
    """Performs what the monitor asks of the job's store, on a daemon thread.

    Parameters
    ----------
    store : torch.distributed.Store
        Any class of it. A clone with a connection of its own is used where torch can make one, so that nobody waits
        for a blocking call of the trainer's.

    Attributes
    ----------
    queue : _core.StoreQueue
        To be handed to the native monitor.
    prefix : str
        Begins every key: the same on all ranks, different for restarts and for several monitors of a job.
    """

    def __init__(self, store: Any) -> None:
        global _jobs
        self.queue = _core.StoreQueue()
        run, restart = (os.environ.get(f"TORCHELASTIC_{name}", "0") for name in ("RUN_ID", "RESTART_COUNT"))
        self.prefix = f"stepwatch/{run[:64]}/{restart}/{_jobs}"
        _jobs += 1  # monitors are made in the same order on all ranks
        self._store = store
        self._thread = threading.Thread(target=self._serve, name="stepwatch-store", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        store = _own_connection(self._store)
        while not self.queue.closed:
            request = self.queue.next(_SECONDS_PER_LOOK)
            if request is None:
                continue
            try:
                request.answer(_perform(store, request))
            except Exception as error:  # a network that is gone, a store that is closed
                request.fail(f"the job's store: {error}")

    def close(self) -> None:
        """Stop the thread; what is still asked is answered as failed."""
        self.queue.close()
        self._thread.join(timeout=2.0)


def _perform(store: Any, request: _core.StoreRequest) -> str | None:
    if request.call == "set":
        store.set(request.key, request.value)
        return None
    if request.call == "set_once":
        return store.compare_set(request.key, "", request.value).decode()
    return store.get(request.key).decode() if store.check([request.key]) else None


def _own_connection(store: Any) -> Any:
    try:
        return store.clone()
    except Exception:  # not every class and version of torch can
        return store


def find_job_store() -> JobStore | None:
    """Return the store of the job that torch.distributed knows, or None in a job of one process.

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
