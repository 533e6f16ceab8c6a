"""The rules of InternEvo's monitor, with the messages that its log rank would have sent.

- After each step the loss is compared with that of the previous step: a factor above 1.5 is a spike. NaN compares as
  false, and a previous loss of -1 means that there is no previous loss.
- Every 300 seconds a thread of the log rank checks whether the time of the last metrics record, in whole seconds, is
  later than at the last check, and compares losses as above. It ignores phases, and stops with its process.
- A gradient norm that is infinite or NaN is reported at each step.
- Each exception is reported unless an earlier report contains its text. SIGTERM is reported as an exit.
- Every 50 steps a rank whose own time is 1.1 times the mean of its group (of more than four ranks without the minimum
  and the maximum) is reported as slow, if the time is at least half a second.

Messages are never withdrawn, so each one is an incident that is not resolved.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from references.replaying import Rules, main, number  # noqa: E402

SPIKE_RATIO = 1.5
LOOK_SECONDS = 300.0
SLOW_RATIO = 1.1
SLOW_EVERY_STEPS = 50
SLOW_SECONDS_MIN = 0.5
SIGTERM = 15
NO_LOSS = -1.0


class LogRank:
    """State of the log rank of one run."""

    def __init__(self, now: float) -> None:
        self.step = 0
        self.loss = NO_LOSS
        self.look_loss = NO_LOSS
        self.look_active: int | None = None
        self.active = 0
        self.next_look = now + LOOK_SECONDS
        self.alive = True
        self.own: dict[int, float] = {}
        self.reported = ""


class InternEvo(Rules):
    """Rules for any number of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[str, LogRank] = {}

    def line(self, run: str, rank: int | None, beat: dict[str, Any] | None, event: dict[str, Any] | None) -> None:
        """Process a beat or an event."""
        state = self.runs.setdefault(run, LogRank(self.now))
        if beat is not None:
            self._beat(run, state, rank or 0, beat)
        elif event is not None:
            self._event(run, state, rank, event)

    def _beat(self, run: str, state: LogRank, rank: int, beat: dict[str, Any]) -> None:
        own = number(beat.get("step_seconds"))
        if own is not None:
            state.own[rank] = own
        if rank != 0:
            return
        step = int(beat["step"])
        if step == state.step or beat["phase"] != "train":
            return
        state.step, state.active = step, int(self.now)
        norm = number(beat.get("grad_norm"))
        if norm is not None and not math.isfinite(norm):
            self.message(run, "grad_nonfinite", [], step - 1)
        loss = number(beat.get("loss"))
        if loss is not None:
            if state.loss != NO_LOSS and loss > SPIKE_RATIO * state.loss:
                self.message(run, "loss_spike", [], step - 1)
            state.loss = loss
        if step % SLOW_EVERY_STEPS == 0:
            self._slow_ranks(run, state)

    def _slow_ranks(self, run: str, state: LogRank) -> None:
        times = sorted(state.own.values())
        if len(times) < 2:
            return
        usual = statistics.fmean(times[1:-1] if len(times) > 4 else times)
        if usual < SLOW_SECONDS_MIN:
            return
        for rank, own in state.own.items():
            if own > SLOW_RATIO * usual:
                self.message(run, "straggler", [rank], state.step)

    def _event(self, run: str, state: LogRank, rank: int | None, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind in ("start", "restart"):
            self.runs[run] = LogRank(self.now)
        elif kind == "end" or (kind == "process_gone" and rank == 0):
            state.alive = False
        elif kind == "exception":
            text = f"{event.get('stack', '')}{event.get('type', '')}: {event.get('message', '')}"
            if text not in state.reported:
                state.reported += text + "\n"
                self.message(run, "exception", [] if rank is None else [rank], state.step)
        elif kind == "signal" and event.get("number") == SIGTERM and rank == 0:
            self.message(run, "process_lost", [0], state.step)

    def tick(self) -> None:
        """Run the periodic check of each living log rank when it is due."""
        for run, state in self.runs.items():
            if not state.alive or self.now < state.next_look:
                continue
            state.next_look = self.now + LOOK_SECONDS
            if state.look_active is not None and state.active <= state.look_active:
                self.message(run, "stuck", [], state.step)
            state.look_active = state.active
            if state.look_loss != NO_LOSS and state.loss > SPIKE_RATIO * state.look_loss:
                self.message(run, "loss_spike", [], state.step)
            state.look_loss = state.loss


if __name__ == "__main__":
    main(InternEvo, __doc__)
