"""Numbers of a step, as the training loop reports them."""

from __future__ import annotations

from typing import Any

from stepwatch.reporting.found import reporter_in_use


def report(*, step: int | None = None, **numbers: Any) -> None:
    """Report numbers of a training step to the monitor.

    Never raises, and never waits for a device. Without a monitor (before `watch`, and in a forked child) it does
    nothing. With several monitors in the process, the numbers go to the open one that was opened first, with one
    warning; use `Watch.report` to choose a monitor. Call it from the training thread.

    Parameters
    ----------
    step : int, optional
        The step that the numbers belong to, as the monitor counts; None: the one in progress. `optimizer.step()` ends
        a step, so numbers reported after it, without `step`, belong to the next one.
    **numbers : int, float or 0-d tensor
        `loss`, `lr`, `grad_norm`, `tokens`, `samples`, `loss_scale`, `step_seconds` and `flops` (floating-point
        operations of this rank in this step) have a defined meaning. With `flops`, the peak rate of the device is added
        once a minute, as `peak_flops`. Any other name of up to 39 bytes (not "phase" or "module") is kept unchanged.
        NaN and infinities are numbers. A tensor on a device is copied asynchronously and reported when the copy is
        complete. `None` is left out. Without `lr`, the learning rate of the watched optimizer's first group is added.

    Examples
    --------
    >>> stepwatch.report(loss=loss, tokens=batch.numel())  # doctest: +SKIP
    >>> optimizer.step()  # doctest: +SKIP
    """
    reporter = reporter_in_use()
    if reporter is not None:
        reporter.report(numbers, step)
