"""Warnings about rows that a plan requests but MindSpore does not deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwatch.mindspore.cell_index import CellIndex

if TYPE_CHECKING:
    from stepwatch import _core

# An update later, moments and gradients have their rows.
_STEPS = 2
_STEPS_WITHOUT_UPDATE = 8
_COMPILED = (
    "code that mindspore.jit or dataset_sink_mode=True compiles calls no hook; train in PyNative mode, without jit "
    "around the cells, and with dataset_sink_mode=False"
)


class LackingRows:
    """Compares the rows with the plan, once per plan, and logs what is missing.

    Parameters
    ----------
    session : _core.Session
    """

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._index = CellIndex()
        self._steps = 0
        self._steps_without_update = 0
        self._warned: set[str] = set()

    def begin_plan(self, index: CellIndex) -> None:
        """Start over for a new plan, and report what cannot be watched.

        Parameters
        ----------
        index : CellIndex
        """
        self._index, self._steps = index, 0
        if index.compiled and self._session.wanted_modules:
            self._warn(
                "compiled",
                f"the construct of {len(index.compiled)} cells is compiled by mindspore.jit ({index.compiled[0]} is "
                "one): the cells inside have no rows of activations; the compiled cell and all parameters have theirs",
            )

    def end_step(self, has_updated: bool) -> None:
        """Check for missing rows, at the end of the second collected step with an update.

        Parameters
        ----------
        has_updated : bool
        """
        if not has_updated:
            self._steps_without_update += 1
            kinds = [kind for kind, *_ in self._session.yield_of_kinds() if kind != "grad_unreduced"]
            if self._steps_without_update == _STEPS_WITHOUT_UPDATE and kinds:
                self._warn(
                    "optimizer",
                    f"{', '.join(kinds)} have no rows: they are read around an update of the optimizer, and none was "
                    "seen; pass set_monitor the optimizer that is called",
                )
            return
        self._steps += 1
        if self._steps == _STEPS:
            self._look()

    def _look(self) -> None:
        called, uncalled = self._session.called_and_uncalled
        if uncalled and not called:
            self._warn("actv", f"xy_distribution has no rows: none of {len(uncalled)} cells was called; {_COMPILED}")
        for kind, seen, _, silent in self._session.yield_of_kinds():
            if not silent or seen:
                continue
            name = self._index.weight_rows[silent[0]][1]
            if kind in ("exp_avg", "exp_avg_sq", "other"):
                why = "the optimizer keeps no such moment (Adam, AdamW, AdamWeightDecay and Lamb do)"
            else:
                why = _COMPILED
            self._warn(kind, f"{kind} has no rows for {len(silent)} parameters ({name} is one): {why}")

    def _warn(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            self._session.warn(text)
