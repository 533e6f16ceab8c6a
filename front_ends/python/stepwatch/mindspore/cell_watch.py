"""The native API for a model of MindSpore."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stepwatch.mindspore import ranks
from stepwatch.mindspore.cell_attachment import CellAttachment
from stepwatch.mindspore.refusals import require_mindspore
from stepwatch.mindspore.tensors import Library
from stepwatch.watch import Watch


class CellWatch(Watch):
    """A monitor of this process, for MindSpore in PyNative mode.

    Parameters
    ----------
    config, **options
        As in `Watch`; groups are names of MindSpore's communication groups.

    Raises
    ------
    ImportError
        MindSpore is not installed.
    """

    def __init__(self, config: Any, **options: Any) -> None:
        require_mindspore()
        self._library = Library()
        super().__init__(config, **options)

    @staticmethod
    def _may_be_clock(optimizer: Any) -> bool:
        return callable(optimizer)

    @staticmethod
    def _place_in_job() -> tuple[int, int]:
        return ranks.rank_and_world_size()

    @staticmethod
    def _find_job_store() -> None:
        return None

    def _tensor_library(self) -> ModuleType:
        return self._library.module

    def _make_attachment(self, tp_group: Any, dp_group: Any, clock: Any) -> CellAttachment:
        writes_reduced = None
        if tp_group is not None or dp_group is not None:

            def writes_reduced(parameter: Any) -> bool:
                return ranks.writes_reduced_gradient(parameter, tp_group, dp_group)

        return CellAttachment(self._session, self._library, self.reporter, writes_reduced, clock)
