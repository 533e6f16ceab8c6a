"""A training job driven by a script: ``start``, ``train``, ``hang``, ``restart``, ``end``; each writes lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from .draw import Draw
from .label import Label, Tolerated
from .measures import Measures
from .promises import deadline_of, promised_of
from .shape import Shape

Line = tuple[float, dict[str, Any]]
Sampler = Callable[["Job"], Iterable[dict[str, Any]]]
# Delay between the end of a step and its beat at the observer, in seconds.
BEAT_DELAY = (0.001, 0.02)


class Job:
    """One run in virtual time, with the lines of an observer with a perfect clock.

    Scripts change its public attributes between calls: ``silent`` (ranks without beats), ``behind`` (ranks whose last
    step is one older), ``slow`` (factor of a rank's own time), ``pace`` and ``hiccup`` (functions of the step: factor
    and extra seconds for all), and ``measures``.

    Parameters
    ----------
    draw : Draw
        Source of all variation.
    shape : Shape
        Properties of the job.
    at : float
        Virtual seconds at its creation.
    step : int
        Last finished step of a run that continues from a checkpoint.
    """

    def __init__(self, draw: Draw, shape: Shape, at: float = 0.0, step: int = 0) -> None:
        self.draw = draw
        self.shape = shape
        self.world = shape.world
        self.now = at
        self.step = step
        self.saved_step = step
        self.phase = "init"
        self.lines: list[Line] = []
        self.labels: list[Label] = []
        self.tolerated: list[Tolerated] = []
        self.silent: set[int] = set()
        self.behind: set[int] = set()
        self.slow: dict[int, float] = {}
        self.place: dict[int, str] = {}
        self.pace: Callable[[int], float] = lambda step: 1.0
        self.hiccup: Callable[[int], float] = lambda step: 0.0
        self.measures = Measures(draw, shape, self)
        self.restarted_at = at
        self.protected_to_the_end = False  # whether the silence after the last line has a reason
        self.saves = True  # whether written checkpoints are reported
        self.all_report = False  # by each rank rather than only by the first
        self.hiccup_is_waiting = False  # for others, which is not part of a rank's own time
        self._samplers: list[tuple[float, list[float], Sampler]] = []
        self._beat_at: list[float] = []
        self._own: dict[int, float] = {}
        self._schedule_beats()

    def event(self, kind: str, rank: int | None = None, after: float = 0.0, **more: object) -> None:
        """Write an event, this many seconds from now."""
        body: dict[str, object] = {"kind": kind, **more}
        line: dict[str, object] = {"run": self.shape.run}
        # The rank of an event may be on the line, as for a beat.
        if rank is not None:
            line["rank"] = rank
        line["event"] = body
        self.lines.append((self.now + after, line))

    def start(self, seconds: float | None = None) -> Job:
        """Begin the run and complete its initialisation."""
        self.event("start", world=self.world, host="h1")
        return self.init(seconds)

    def init(self, seconds: float | None = None) -> Job:
        """Load and compile for some seconds."""
        self.enter("init", self.shape.init_seconds if seconds is None else seconds)
        self.phase = "train"
        return self

    def train(self, steps: int = 0, seconds: float = 0.0) -> Job:
        """Finish this many steps, or those of this many seconds, with evaluations and checkpoints when due."""
        done, until = 0, self.now + seconds
        while done < steps or self.now < until:
            self._one_step()
            done += 1
            if self.shape.eval_every and self.step % self.shape.eval_every == 0:
                self.evaluate()
            if self.shape.checkpoint_every and self.step % self.shape.checkpoint_every == 0:
                self.checkpoint()
        return self

    def _one_step(self) -> None:
        shape = self.shape
        draw = self.draw
        pace = shape.step_seconds * self.pace(self.step + 1)
        extra = self.hiccup(self.step + 1)
        slowest = max((f for r, f in self.slow.items() if r < self.world), default=1.0)
        if self.world > len(self.slow):
            slowest = max(slowest, 1.0)
        wait = 1 + shape.jitter * abs(draw.gauss(0, 1)) * 1.5
        self.wait(pace * slowest * wait + extra)
        self.step += 1
        own_extra = 0.0 if self.hiccup_is_waiting else extra
        self.measures.finish_step(pace, own_extra, pace * slowest * wait + extra)
        if shape.beat_seconds is None:
            self.beat()

    def beat(self) -> None:
        """Let each rank send a beat now, as at the end of a step."""
        for rank in range(self.world):
            self._beat(rank, self.now + self.draw.between(*BEAT_DELAY))

    def wait(self, seconds: float) -> None:
        """Let time pass without the end of a step; heartbeats and samples continue."""
        end = self.now + seconds
        period = self.shape.beat_seconds or self.shape.idle_seconds
        idle = self.shape.beat_seconds is None
        if period and self.phase != "ended" and not (idle and seconds < period):
            self._beats_until(end, period, idle)
        for period_seconds, due, sampler in self._samplers:
            while due[0] <= end:
                begin, self.now = self.now, max(due[0], self.now)
                for body in sampler(self):
                    rank = body.pop("rank", None)
                    self.event(body.pop("kind"), rank, **body)
                self.now = begin
                due[0] += period_seconds
        self.now = end

    def _schedule_beats(self) -> None:
        period = self.shape.beat_seconds or self.shape.idle_seconds or 0.0
        self._beat_at = [self.now + self.draw.random() * period for _ in range(self.world)]

    def _beats_until(self, end: float, period: float, idle: bool) -> None:
        for rank in range(self.world):
            at = self._beat_at[rank]
            if idle or at < self.now - period:
                at = self.now + period * (0.9 + 0.1 * rank / self.world)
            while at <= end:
                self._beat(rank, at)
                at += period * (1 + 0.004 * self.draw.gauss(0, 1))
            self._beat_at[rank] = at

    def _beat(self, rank: int, at: float) -> None:
        if rank in self.silent or self.phase == "ended":
            return
        step = self.step - 1 if rank in self.behind and self.step else self.step
        body: dict[str, object] = {"step": step, "phase": self.phase}
        if self.phase != "init":
            body.update(self.measures.of(rank))
        if self.shape.modules and self.phase != "init":
            body["module"] = self.place.get(rank) or self.measures.module()
        self.lines.append((at, {"run": self.shape.run, "rank": rank, "beat": body}))

    def enter(self, phase: str, seconds: float) -> Job:
        """Spend some seconds in a phase, and stay in it."""
        self.phase = phase
        if self.shape.beat_seconds is None:
            self.beat()
        self.wait(seconds)
        return self

    def back_to_train(self) -> None:
        """Leave an evaluation or a checkpoint."""
        self.phase = "train"
        if self.shape.beat_seconds is None:
            self.beat()

    def evaluate(self, seconds: float | None = None) -> None:
        """Evaluate; no step ends meanwhile."""
        usual = self.shape.eval_seconds * self.draw.between(0.92, 1.08)
        self.enter("eval", usual if seconds is None else seconds)
        self.back_to_train()

    def checkpoint(self, seconds: float | None = None) -> None:
        """Write a checkpoint and report it; 0 seconds: concurrent with training, like asynchronous checkpoints."""
        usual = self.shape.checkpoint_seconds * self.draw.between(0.9, 1.1)
        seconds = usual if seconds is None else seconds
        if seconds > 0:
            self.enter("checkpoint", seconds)
        if self.saves:
            for rank in range(self.world if self.all_report else 1):
                self.event("checkpoint", rank, after=0.3 * rank, step=self.step)
            self.saved_step = self.step
        if seconds > 0:
            self.back_to_train()

    def hang(self, seconds: float, silent: Iterable[int] = (), behind: Iterable[int] = ()) -> Job:
        """Let no step end for some seconds; some ranks are silent, or have not finished the last step."""
        self.silent |= set(silent)
        self.behind |= set(behind)
        self.wait(seconds)
        return self

    def wake(self, silent: Iterable[int]) -> Job:
        """Let silent ranks and ranks behind continue."""
        self.silent -= set(silent)
        self.behind -= set(silent)
        return self

    def gone(self, *ranks: int, after: float = 0.0) -> Job:
        """Lose processes, which send no more beats."""
        for rank in ranks:
            self.event("process_gone", rank, after=after)
            self.silent.add(rank)
            after += self.draw.between(0.0, 0.3)
        return self

    def all_gone(self, within: float = 2.0) -> Job:
        """Lose each remaining process, in some order, as at every end of a run."""
        left = [rank for rank in range(self.world) if rank not in self.silent]
        for rank in left:
            self.event("process_gone", rank, after=self.draw.between(0.1, within))
        self.silent |= set(left)
        self.now += within
        return self

    def restart(self, down: float = 30.0, step: int | None = None, world: int | None = None) -> Job:
        """Restart the whole run from a checkpoint (the last reported one, if no step is given)."""
        self.wait(down)
        if world is not None:
            self.world = world
        self.silent.clear()
        self.behind.clear()
        self.slow.clear()
        self.place.clear()
        self.step = self.saved_step if step is None else step
        self.measures.heal()
        self._schedule_beats()
        self.restarted_at = self.now
        self.event("restart", world=self.world)
        self.measures.forget()
        return self.init()

    def begin_anew(self) -> Job:
        """Start a run of this name again from its first step, after its end."""
        self.silent.clear()
        self.step = self.saved_step = 0
        self.measures.heal()
        self.measures.forget()
        self._schedule_beats()
        return self.start()

    def end(self, reason: str = "ok", gone: bool = True) -> Job:
        """End the run and then let each of its processes exit."""
        self.event("end", reason=reason)
        self.phase = "ended"
        return self.all_gone() if gone else self

    def sample(self, every: float, sampler: Sampler) -> Job:
        """Write a sampler's events at this interval: dictionaries with kind and optionally rank."""
        self._samplers.append((every, [self.now + every * self.draw.random()], sampler))
        return self

    def expect(
        self,
        kind: str,
        ranks: Iterable[int] = (),
        *,
        naming: str = "first",
        also: Iterable[str] = (),
        onset: float = 0.0,
        promised: float | None = None,
        deadline: float | None = None,
        since: int | None = None,
        tolerance: int | None = None,
    ) -> Label:
        """Label a fault that begins now (or ``onset`` seconds later), by default with the times of its kind."""
        ranks = tuple(ranks)
        promised = promised_of(kind, self.shape) if promised is None else promised
        deadline = deadline_of(kind, self.shape) if deadline is None else deadline
        begin = self.now + onset
        # Many steps may end between two heartbeats, so the last good one is uncertain.
        between = int((self.shape.beat_seconds or 0.0) / self.shape.step_seconds) + self.shape.log_every
        label = Label(
            run=self.shape.run,
            kind=kind,
            also=tuple(also),
            ranks=ranks,
            naming=naming if ranks else "any",
            onset=begin,
            promised=begin + promised,
            deadline=begin + max(deadline, promised),
            since_step=self.step if since is None else since,
            since_tolerance=between + (1 if tolerance is None else tolerance),
        )
        self.labels.append(label)
        return label

    def tolerate(self, *kinds: str, seconds: float = float("inf")) -> Job:
        """Count incidents of these kinds, from now on, neither as found nor as false."""
        self.tolerated.append(Tolerated(self.shape.run, kinds, self.now - 1.0, self.now + seconds))
        return self
