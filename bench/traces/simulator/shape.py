"""The properties of a healthy job, and the shapes that the two sets draw."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .draw import Draw
from .learning import Learning

EVERYTHING = frozenset({"loss", "grad_norm", "lr", "tokens", "step_seconds"})


@dataclass
class Shape:
    """A job's size, speed, habits, and reported numbers.

    Attributes
    ----------
    beat_seconds : float or None
        Fixed interval of each rank's beats; None: at the end of each step.
    idle_seconds : float or None
        With a beat at each step: the interval of beats while no step ends. None: such ranks are silent meanwhile.
    jitter : float
        Relative standard deviation of a rank's own step time.
    tokens : int
        Tokens of one rank in one step.
    reports : frozenset of str
        Numbers in the beats: loss, grad_norm, lr, tokens, step_seconds, loss_scale.
    loss_from : str
        ``first`` (only rank 0 reports it), ``each`` (a separate loss on each rank) or ``reduced`` (the same on all).
    log_every : int
        Loss and norms are measured at this interval of steps and repeat in between, as gauges do.
    checkpoint_every, checkpoint_seconds, eval_every, eval_seconds
        In steps and seconds; 0 steps: never.
    """

    run: str = "r1"
    world: int = 8
    host_ranks: int = 8
    step_seconds: float = 0.5
    jitter: float = 0.02
    beat_seconds: float | None = None
    idle_seconds: float | None = None
    tokens: int = 4096
    reports: frozenset[str] = EVERYTHING
    loss_from: str = "first"
    log_every: int = 1
    init_seconds: float = 20.0
    checkpoint_every: int = 0
    checkpoint_seconds: float = 10.0
    eval_every: int = 0
    eval_seconds: float = 15.0
    modules: bool = True
    learning: Learning = field(default_factory=Learning)

    def but(self, **changes: object) -> Shape:
        """Return the shape with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def seen_after(self) -> float:
        """Return the seconds within which a step's end is always reported."""
        return max(self.beat_seconds or 0.0, self.step_seconds) + 0.5


def drawn_shape(draw: Draw, *, world: int | None = None, worlds: tuple[int, ...] = ()) -> Shape:
    """Return a shape of the set: size, speed, reported numbers and beat interval all vary."""
    if world is None:
        world = draw.one_of(worlds or draw.either((1, 2, 4, 8, 8, 16, 64), (1, 2, 3, 8, 12, 32, 48)))
    step_seconds = draw.spread(*draw.either((0.25, 2.5), (0.12, 6.0)))
    beats = (None, None, 1.0, 5.0, 10.0) if world <= 16 else (None, 10.0, 15.0)
    beat_seconds = draw.one_of(beats)
    reports = set(EVERYTHING)
    for name in ("lr", "tokens", "step_seconds"):
        if draw.chance(0.25):
            reports.discard(name)
    return Shape(
        world=world,
        host_ranks=draw.one_of((4, 8)),
        step_seconds=step_seconds,
        jitter=draw.between(0.005, draw.either(0.03, 0.05)),
        beat_seconds=beat_seconds,
        idle_seconds=draw.one_of((None, 1.0, 5.0)) if beat_seconds is None else None,
        tokens=draw.one_of((2048, 4096, 8192, 32768)),
        reports=frozenset(reports),
        loss_from=draw.one_of(("first", "first", "each", "reduced")),
        init_seconds=draw.between(5, draw.either(60, 150)),
        modules=draw.chance(0.6),
        learning=Learning.drawn(draw),
    )
