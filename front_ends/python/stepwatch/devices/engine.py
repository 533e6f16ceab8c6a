"""Measurement of tensors on their devices for the extension: tensors in, pages of numbers out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from stepwatch import _core
from stepwatch.devices.batch import Batch, current_stream
from stepwatch.devices.operators import AGREEMENT, Operators
from stepwatch.devices.pages import Pages
from stepwatch.devices.zeros import threshold
from stepwatch.hooks.eager_calls import eager

_ONE_BY_ONE = "are copied to the host one by one, which is slower, because the device cannot join them"
_UNSENT = "cannot be copied to the host; their rows are dropped as late"


class Engine:
    """Measures tensors with torch's operators, on the current stream of the calling thread.

    Several threads of the trainer may call it: autograd has its own threads for devices.

    Parameters
    ----------
    pages : _core.LatePages
        Pages that receive the numbers.
    """

    def __init__(self, pages: _core.LatePages) -> None:
        self._pages = Pages(pages)
        self._lock = threading.Lock()
        self._operators: dict[torch.device, Operators] = {}
        self._batches: dict[tuple[torch.device, Any], Batch] = {}
        self._thresholds: dict[tuple[torch.dtype, float, int], float] = {}
        self._reported: set[tuple[str, ...]] = set()
        self.measure, self.agreement = eager(self._measure), eager(self._agreement)
        self.flush = eager(self._flush)

    def prepare(self, tensor: torch.Tensor) -> None:
        """Register the device of a tensor, outside of any step."""
        local = _local(tensor)
        if local.numel() > 0:
            with _undisturbed(local.device):
                self._operators_of(local)

    def _measure(
        self, tensors: Sequence[torch.Tensor], columns: Sequence[int], tickets: Sequence[int], eps: float, is_exact: int
    ) -> list[str | None]:
        """Measure tensors. The next `flush` sends their numbers.

        Parameters
        ----------
        tensors : sequence of torch.Tensor
            Each with at least one element.
        columns, tickets : sequence of int
            The statistics of each tensor (`operators.COLUMNS`), and the ticket for its numbers.
        eps, is_exact
            As for `zeros.threshold`.

        Returns
        -------
        list of str or None
            For each tensor, the reason why it is not measured.
        """
        answers: list[str | None] = [None] * len(tensors)
        groups: dict[tuple[torch.device, torch.dtype, int], list[int]] = {}
        locals_ = [_local(tensor) for tensor in tensors]
        for place, tensor in enumerate(locals_):
            groups.setdefault((tensor.device, tensor.dtype, columns[place]), []).append(place)
        for (device, dtype, wanted), places in groups.items():
            why_not = _why_not_now(device)
            if why_not is None:
                below = self._threshold(dtype, eps, is_exact)
                own = [locals_[place] for place in places]
                why_not = self._measure_alike(own, wanted, [tickets[place] for place in places], below)
            if why_not is not None:
                for place in places:
                    answers[place] = why_not
        return answers

    def _measure_alike(self, tensors: list[torch.Tensor], columns: int, tickets: list[int], below: float) -> str | None:
        device, dtype = tensors[0].device, tensors[0].dtype
        try:
            with _undisturbed(device):
                found = list(self._operators_of(tensors[0]).measure(tensors, columns, below))
                with self._lock:
                    batch = self._batch_of(device)
                    for places, numbers in found:
                        batch.add(dtype, columns, [tickets[place] for place in places], numbers)
        except Exception as error:  # training continues
            return f"its device failed to measure it ({error})"
        return None

    def _agreement(self, a: torch.Tensor, b: torch.Tensor, ticket: int) -> str | None:
        """Measure the agreement of the signs of two tensors of one shape.

        Parameters
        ----------
        a, b : torch.Tensor
        ticket : int

        Returns
        -------
        str or None
            The reason if it is not measured.
        """
        a, b = _local(a), _local(b)
        why_not = _why_not_now(a.device)
        if why_not is not None:
            return why_not
        try:
            with _undisturbed(a.device):
                number = self._operators_of(a).agreement(a, b)
                with self._lock:
                    numbers = [None if number is None else [number]]
                    self._batch_of(a.device).add(torch.int64, AGREEMENT, [ticket], numbers)
        except Exception as error:
            return f"its device failed to measure it ({error})"
        return None

    def _flush(self) -> None:
        """Send the measured numbers, with one copy for each device and stream, without waiting for any."""
        failures: list[tuple[str, str, Exception]] = []
        with self._lock:
            for batch in self._batches.values():
                if batch.is_empty:
                    continue
                try:
                    with _undisturbed(batch.device), batch.on_its_stream():
                        trouble = batch.send(self._pages)
                    if trouble is not None:
                        failures.append((batch.device.type, _ONE_BY_ONE, trouble))
                except Exception as error:  # training continues
                    failures.append((batch.device.type, _UNSENT, error))
        # Without the lock: a handler of the warning may call `latest`, which sends batches.
        for kind, what, why in failures:
            self._report_once((what, kind), f"the numbers of tensors on {kind} {what} ({why})")

    def _operators_of(self, tensor: torch.Tensor) -> Operators:
        known = self._operators.get(tensor.device)
        if known is None:
            kind = tensor.device.type
            known = self._operators[tensor.device] = Operators(
                tensor, lambda what, dtype, why: self._report_missing(kind, what, dtype, why)
            )
            self._report_once(("introduced", kind), _introduction(kind, known.wide))
        return known

    def _report_missing(self, kind: str, what: str, dtype: torch.dtype, why: Exception) -> None:
        self._report_once(
            ("lack", kind, what, str(dtype)),
            f"{kind} has no operator for {what} of {dtype}; the rows of such tensors have nan instead ({why})",
        )

    def _report_once(self, key: tuple[str, ...], text: str) -> None:
        if key not in self._reported:
            self._reported.add(key)
            self._pages.note(text)

    def _batch_of(self, device: torch.device) -> Batch:
        stream = current_stream(device)
        batch = self._batches.get((device, stream))
        if batch is None:
            batch = self._batches[device, stream] = Batch(device, stream, self._operators[device].wide)
        return batch

    def _threshold(self, dtype: torch.dtype, eps: float, is_exact: int) -> float:
        key = (dtype, eps, is_exact)
        if key not in self._thresholds:
            self._thresholds[key] = threshold(dtype, eps, bool(is_exact))
        return self._thresholds[key]


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the local tensor inside a DTensor, the result of a collective, or both."""
    while type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        inside = getattr(tensor, "_local_tensor", None)
        if inside is None and hasattr(tensor, "trigger_wait"):
            inside = tensor.trigger_wait()  # operations queued here wait for the collective, this thread does not
        if inside is None or type(inside) is type(tensor):
            break
        tensor = inside
    return tensor


def _introduction(kind: str, wide: torch.dtype) -> str:
    text = f"tensors on {kind} are measured there by torch's operators, in {str(wide)[6:]}"
    if wide == torch.float64:
        return text
    return text + ": the device has no float64, so norm, mean and std are accurate to about six digits only"


def _why_not_now(device: torch.device) -> str | None:
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return "it is part of a CUDA graph, which only the CUDA engine can watch"
    return None


@contextlib.contextmanager
def _undisturbed(device: torch.device) -> Iterator[None]:
    """Disable autograd, inference mode and autocast."""
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if torch.is_grad_enabled():
            stack.enter_context(torch.no_grad())
        if _is_autocast(device.type):
            stack.enter_context(torch.autocast(device.type, enabled=False))
        yield


def _is_autocast(kind: str) -> bool:
    try:
        return torch.is_autocast_enabled(kind)
    except (RuntimeError, TypeError):  # a device without autocast, or a torch that supports only CUDA's
        return kind == "cuda" and torch.is_autocast_enabled()
