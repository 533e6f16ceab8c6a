"""A bounded queue with one thread that sends messages, so that a training step never waits for the network."""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import multiprocessing.util
import os
import queue
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

logger = logging.getLogger("stepwatch")

# A pause between attempts lasts at most this long while the process waits for the queue.
_HURRIED_PAUSE_SECONDS = 0.2


class BackgroundSender:
    """Sends items in order, in a daemon thread that the first item starts.

    `put` and `flush` take no lock that a signal handler could meet half-way: the queue is a `SimpleQueue`. A forked
    child begins with an empty queue and a thread of its own.

    Parameters
    ----------
    name : str
        Name of the thread.
    send : callable
        Sends one item and returns whether it arrived. It may raise, and may call `pause`.
    capacity : int
        The number of waiting items; further ones are dropped.
    exit_seconds : float
        How long the end of the process waits for the queue.

    Attributes
    ----------
    sent, failed, dropped, merged : int
        Items that arrived; that did not; that found the queue full; that were equal to one still waiting.
    """

    def __init__(self, name: str, send: Callable[[Any], bool], capacity: int, exit_seconds: float) -> None:
        self._name = name
        self._send = send
        self._capacity = capacity
        self._exit_seconds = exit_seconds
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: set[Hashable] = set()
        self._thread: threading.Thread | None = None
        self._hurrying = 0
        self.sent = self.failed = self.dropped = self.merged = 0

    def put(self, item: Hashable) -> bool:
        """Queue an item without waiting; return False if it was dropped."""
        if os.getpid() != self._process:
            self._begin()
        if item in self._waiting:
            self.merged += 1
            return True
        if len(self._waiting) >= self._capacity:
            self.dropped += 1
            if self.dropped == 1:
                logger.warning("%s: %d messages wait already; further ones are dropped", self._name, self._capacity)
            return False
        try:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, args=(self._queue,), name=self._name, daemon=True)
                self._thread.start()
                at_exit(lambda: self.flush(self._exit_seconds))
        except RuntimeError:  # the interpreter is ending
            self._thread = None
            self.dropped += 1
            return False
        self._waiting.add(item)
        self._queue.put(item)
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until all items queued before this call were tried; return False if `seconds` were too few."""
        if os.getpid() != self._process or self._thread is None:
            return True
        marker = threading.Event()
        self._hurrying += 1
        self._queue.put(marker)
        try:
            return marker.wait(seconds)
        finally:
            self._hurrying -= 1

    def pause(self, seconds: float) -> None:
        """Wait between two attempts, less if the process waits for the queue. For `send`."""
        end = time.monotonic() + seconds
        hurried_end = time.monotonic() + min(seconds, _HURRIED_PAUSE_SECONDS)
        while (left := (hurried_end if self._hurrying else end) - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def _work(self, items: queue.SimpleQueue[Any]) -> None:
        while True:
            item = items.get()
            if isinstance(item, threading.Event):
                item.set()
                continue
            self._waiting.discard(item)
            try:
                arrived = self._send(item)
            except Exception as error:
                arrived = False
                # The text of an exception may contain an address with its token.
                logger.warning("%s: a message was not sent (%s)", self._name, type(error).__name__)
            if arrived:
                self.sent += 1
            else:
                self.failed += 1


def at_exit(function: Callable[[], Any]) -> None:
    """Call a function when this process ends, also in a process that multiprocessing has started."""
    atexit.register(function)
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, function, exitpriority=0)
