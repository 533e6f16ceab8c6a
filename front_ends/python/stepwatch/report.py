"""Numbers of a step, said by the training loop."""

from __future__ import annotations

from typing import Any

from stepwatch.reporting.found import reporter_in_use


def report(*, step: int | None = None, **numbers: Any) -> None:
    """Report numbers of a training step to whoever watches the run.

    Never raises, and waits for no device. Without a monitor (before `watch`, and in a forked child) it does nothing.
    With several monitors in the process the first one that is still open is told, which is said once;
    `Watch.report` names one. For the training thread.

    Parameters
    ----------
    step : int, optional
        The step that the numbers belong to, as the monitor counts; None: the one in progress. `optimizer.step()` ends
        a step, so what is said after it, without a step, is of the next one.
    **numbers : int, float or 0-d tensor
        `loss`, `lr`, `grad_norm`, `tokens`, `samples`, `loss_scale` and `step_seconds` have a meaning, any other name
        of up to 39 bytes (not "phase" or "module") is kept as it is. NaN and infinities are numbers. A tensor on a
        device is copied without a wait, and told when it has come. `None` is left out. Without `lr` that of the
        watched optimizer's first group is added.

    Examples
    --------
    >>> stepwatch.report(loss=loss, tokens=batch.numel())  # doctest: +SKIP
    >>> optimizer.step()  # doctest: +SKIP
    """
    reporter = reporter_in_use()
    if reporter is not None:
        reporter.report(numbers, step)
