"""The distribution of the elements of Adam's updates, for the heat maps of `ur_distribution`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stepwatch.devices.device_numbers import numbers_of

if TYPE_CHECKING:
    import torch
    from stepwatch import _core
    from stepwatch.frameworks.optimizer_adapter import OptimizerAdapter

_BINS = 30
# After one update every ratio is 1 or -1, which float32 rounding moves slightly in or out of range.
_ROUNDING = 1e-5
_LEAST, _MOST = -1 - _ROUNDING, 1 + _ROUNDING
# Elements counted at once. This bounds the memory of counting, and histc counts in float32, which is exact up to here.
_CHUNK = 1 << 24


class UpdateRatios:
    """Counts the elements of updates and ratios in bins, and passes the counts on at the end of the step.

    With Adam's bias-corrected moments m and v before the update, the update is m / (sqrt(v) + eps) and the ratio is
    m / sqrt(v). The counts stay on their device until the end of the step, so that a step waits only once per device
    for any number of parameters.

    Parameters
    ----------
    session : _core.Session
        The native monitor.
    """

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._wanted: dict[int, tuple[int, torch.nn.Parameter]] = {}  # by id, which is valid while the parameter exists
        self._pending: dict[int, torch.Tensor] = {}

    def install(self, parameters: Iterable[tuple[int, torch.nn.Parameter]]) -> None:
        """Replace the selected parameters.

        Parameters
        ----------
        parameters : iterable of (int, torch.nn.Parameter)
            Parameters with their numbers in the session.
        """
        self.remove()
        self._wanted = {id(parameter): (number, parameter) for number, parameter in parameters}

    def read(self, optimizer: OptimizerAdapter) -> None:
        """Count for the selected parameters of an optimizer before its update.

        Parameters
        ----------
        optimizer : OptimizerAdapter
        """
        if not self._wanted or not self._session.collecting:
            return
        state = optimizer.moments()
        for group in optimizer.groups():
            for parameter in group["params"]:
                number, _ = self._wanted.get(id(parameter), (None, None))
                if number is None or number in self._pending:
                    continue
                # A subscript would add an entry: optimizers use a defaultdict.
                counts = spread_of(state.get(parameter) or {}, group)
                if counts is not None:
                    self._pending[number] = counts

    def end_step(self) -> None:
        """Pass on the counts of the step. Waits for the devices."""
        pending, self._pending = self._pending, {}
        if not pending or not self._session.collecting:
            return
        counts = numbers_of(list(pending.values()))
        rows = [(number, own[:_BINS], own[_BINS:]) for number, own in zip(pending, counts)]
        self._session.observe_updates(rows)

    def remove(self) -> None:
        """Clear the selection and discard pending counts."""
        self._wanted.clear()
        self._pending.clear()


def spread_of(state: Mapping[str, Any], group: Mapping[str, Any]) -> torch.Tensor | None:
    """Count the elements of one parameter's update and ratio.

    Parameters
    ----------
    state : mapping
        The optimizer's state for the parameter: exp_avg, exp_avg_sq and step.
    group : mapping
        The parameter's group: betas and eps, and the step if the state has none.

    Returns
    -------
    torch.Tensor or None
        2 x 30 int64 on the device of the state: the elements of the update, and of the ratio, in each bin from -1 to 1.
        The result is None before the first update, during capture of a CUDA graph, or if the state is not Adam's or
        not in memory.
    """
    import torch

    exp_avg, exp_avg_sq = _local(state.get("exp_avg")), _local(state.get("exp_avg_sq"))
    step, betas = _step_count(state.get("step", group.get("step"))), group.get("betas")
    if exp_avg is None or exp_avg_sq is None or step is None or betas is None:
        return None
    if exp_avg.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    with torch.no_grad(), _order_does_not_matter():
        corrections = [1 - beta**step for beta in betas[:2]]
        counts = torch.zeros(2, _BINS, dtype=torch.int64, device=exp_avg.device)
        for m, v in zip(exp_avg.reshape(-1).split(_CHUNK), exp_avg_sq.reshape(-1).split(_CHUNK)):
            first = _wide(m) / corrections[0]
            root = (_wide(v) / corrections[1]).sqrt_()
            counts[1] += _histogram(first / root)
            counts[0] += _histogram(first.div_(root.add_(group.get("eps", 0.0))))
    return counts


def _local(tensor: Any) -> Any:
    """Return this rank's part of a sharded tensor, other tensors unchanged; None if no element is in memory."""
    local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
    return None if local is None or local.numel() == 0 or local.untyped_storage().size() == 0 else local


def _step_count(step: Any) -> Any:
    """Return the number of updates of the parameter, None for 0. A count in device memory stays there, unread."""
    if getattr(getattr(step, "device", None), "type", "cpu") != "cpu":
        return step
    count = 0.0 if step is None else float(step)
    return count if count > 0 else None


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.element_size() >= 4 else tensor.float()


def _histogram(tensor: torch.Tensor) -> torch.Tensor:
    # Skips NaN and values beyond the ends.
    return tensor.histc(_BINS, _LEAST, _MOST).long()


@contextlib.contextmanager
def _order_does_not_matter() -> Iterator[None]:
    """Allow histc in deterministic mode: torch refuses it on CUDA, although counts are deterministic."""
    import torch

    if not torch.are_deterministic_algorithms_enabled():
        yield
        return
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=warn_only)
