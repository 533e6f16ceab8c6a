"""The stable rank of linear layers, computed by numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwatch import _core

_LINEAR = "linear_hook"
# Steps per singular value, as in `stepwatch.features.l2_features`.
_STEPS_MAX = 64
_NOISE = 1e-5


class LinearFeatures:
    """Computes the features of a plan, and passes the numbers on at the end of the step.

    Parameters
    ----------
    session : _core.Session
    """

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._results: list[tuple[int, int, int, list[float]]] = []
        self._warned: set[str] = set()

    def of_plan(self, cells: Sequence[Any]) -> dict[int, list[Callable[[Any], None]]]:
        """Return the functions to call with a cell after its call, by the position of the cell.

        Parameters
        ----------
        cells : sequence of mindspore.nn.Cell
            All cells of the model.
        """
        self._results.clear()
        found: dict[int, list[Callable[[Any], None]]] = {}
        for kind, at in self._session.wanted_features:
            if kind == _LINEAR:
                found.setdefault(at, []).append(lambda cell, at=at: self._measure(at, cell))
            elif kind not in self._warned:
                self._warned.add(kind)
                self._session.warn(
                    f"l2_targets: {kind} is not supported for MindSpore and has no rows; supported: {_LINEAR}"
                )
        return found

    def _measure(self, at: int, cell: Any) -> None:
        if not self._session.collecting:
            return
        position = self._session.next_feature_call(_LINEAR, at)
        weight = matrix_of(cell) if position == (0, 0) else None
        if weight is not None:
            self._results.append((at, *position, list(stable_rank(weight))))

    def end_step(self) -> None:
        """Pass on the results of the step."""
        results, self._results = self._results, []
        for at, micro_step, call, values in results:
            self._session.observe_feature(_LINEAR, at, micro_step, call, values)


def matrix_name(cell: Any) -> str:
    """Return the name of the two-dimensional `weight`, else `wg`, of a cell that maps vectors; empty if it has none."""
    from mindspore import Parameter, nn

    if isinstance(cell, (nn.Embedding, nn.EmbeddingLookup)):
        return ""
    for name in ("weight", "wg"):
        weight = getattr(cell, name, None)
        if isinstance(weight, Parameter) and len(weight.shape) == 2:
            return name
    return ""


def matrix_of(cell: Any) -> Any:
    """Return the matrix of a cell as an array of float32, or None."""
    import numpy

    name = matrix_name(cell)
    return numpy.asarray(getattr(cell, name).asnumpy()).astype(numpy.float32) if name else None


def stable_rank(matrix: Any) -> tuple[float, float]:
    """Measure the stable rank of a matrix.

    Parameters
    ----------
    matrix : numpy.ndarray
        Two-dimensional, float32.

    Returns
    -------
    tuple of float
        (sr, kernel_norm): kernel_norm is the largest singular value, accurate to about 1e-4, and sr the Frobenius norm
        divided by it. (0, 0) for a matrix of zeros and for an empty one.
    """
    import numpy

    frobenius = float(numpy.linalg.norm(matrix)) if matrix.size else 0.0
    if frobenius == 0.0:
        return 0.0, 0.0
    if not numpy.isfinite(frobenius):
        return float("nan"), float("nan")
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.T
    basis = numpy.zeros((min(_STEPS_MAX, matrix.shape[1]), matrix.shape[1]), numpy.float32)
    images = numpy.zeros((len(basis), matrix.shape[0]), numpy.float32)
    # Lanczos on W^T W, which is never formed, with full reorthogonalisation, then Rayleigh and Ritz.
    vector = numpy.random.Generator(numpy.random.PCG64(0)).standard_normal(matrix.shape[1]).astype(numpy.float32)
    for step in range(len(basis)):
        noise = numpy.linalg.norm(vector) * _NOISE if step else 0.0
        for _ in range(2):  # a second pass removes the rounding error of the first
            vector = vector - basis[:step].T @ (basis[:step] @ vector)
        length = numpy.linalg.norm(vector)
        if length <= noise:
            break
        basis[step] = vector / length
        images[step] = matrix @ basis[step] / frobenius  # so that squares stay in range
        vector = matrix.T @ images[step]
    sigma = frobenius * float(numpy.linalg.norm(images @ images.T, 2)) ** 0.5
    return frobenius / sigma, sigma
