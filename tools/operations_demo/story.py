"""Injects the faults into the job one after the other, and records the incidents that stepwatchd reports."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from operations_demo.alerting import Alerting, Chat, Message
from operations_demo.faults import Fault
from operations_demo.processes import WORLD, Job, Stepwatchd
from operations_demo.watcher import Change, Incident, Watcher
from stepwatch.control_socket import JobError

ONCALL = "oncall"  # the group of the chat that gets the incidents
STEPS_SEEN = 5  # the job counts as training after these
# Pause after a fault, since its consequences could open a second incident.
AFTERMATH_SECONDS = 4.0


@dataclass
class Patience:
    """Limits of waiting times, in seconds.

    Attributes
    ----------
    start : float
        Until the job trains.
    steps : float
        For the steps before a fault.
    notice : float
        Until an incident opens.
    evidence : float
        Until the evidence of an open incident is complete.
    resolve : float
        Until an incident is resolved.
    deliver : float
        Until the chat and Alertmanager have the incident.
    """

    start: float = 40
    steps: float = 60
    notice: float = 45
    evidence: float = 4
    resolve: float = 25
    deliver: float = 15


@dataclass
class Outcome:
    """The outcome of a fault.

    Attributes
    ----------
    fault : Fault
    at_step : int
        The last step of the run known to stepwatchd when the fault began.
    delay : float or None
        Seconds from the fault to the event of the incident; None: there was none.
    opened, last : dict or None
        The incident when it opened, and in its last reported form.
    resolved_after : float or None
        Seconds from the end of the fault to the event that resolves the incident.
    alert : dict or None
        The alert of the incident in Alertmanager's API.
    message, message_resolved : Message or None
        The messages that the chat got of the opened and of the resolved incident.
    """

    fault: Fault
    at_step: int
    delay: float | None = None
    opened: Incident | None = None
    last: Incident | None = None
    resolved_after: float | None = None
    alert: dict[str, Any] | None = None
    message: Message | None = None
    message_resolved: Message | None = None


class Audience(Protocol):
    """Receiver of the events of a story."""

    def trains(self, run: dict[str, Any]) -> None:
        """Report that the job trains."""

    def waits_for_steps(self, fault: Fault, steps: int) -> None:
        """Report that this many steps of training come before the fault."""

    def begins(self, fault: Fault) -> None:
        """Report that a fault is injected."""

    def noticed(self, outcome: Outcome) -> None:
        """Report that stepwatchd has opened an incident, or missed the deadline."""

    def heals(self, fault: Fault) -> None:
        """Report that the fault is undone."""

    def resolved(self, outcome: Outcome) -> None:
        """Report that the incident is resolved, or missed the deadline."""


class Story:
    """Injects faults into a job.

    Parameters
    ----------
    stepwatchd : Stepwatchd
    job : Job
    watcher : Watcher
    audience : Audience
    patience : Patience
    alerting, chat : Alerting, Chat, optional
        Where the incidents are delivered to.
    """

    def __init__(
        self,
        stepwatchd: Stepwatchd,
        job: Job,
        watcher: Watcher,
        audience: Audience,
        patience: Patience,
        alerting: Alerting | None = None,
        chat: Chat | None = None,
    ) -> None:
        self._stepwatchd = stepwatchd
        self._job = job
        self._watcher = watcher
        self._audience = audience
        self._patience = patience
        self._alerting = alerting
        self._chat = chat
        self._run = ""

    def play(self, faults: Sequence[Fault]) -> list[Outcome]:
        """Inject the faults one after the other."""
        run = self._watcher.until(self._training_run, self._patience.start)
        self._run = str(run["id"])
        self._audience.trains(run)
        outcomes = [self._play(fault) for fault in faults]
        self._watcher.wait(lambda incident: False, AFTERMATH_SECONDS)
        return outcomes

    def run(self) -> dict[str, Any]:
        """Return stepwatchd's record of the run."""
        return self._stepwatchd.get(f"/v1/runs/{self._run}")

    def _training_run(self) -> dict[str, Any] | None:
        if self._job.has_failed():
            raise RuntimeError(f"the job has ended before anything was done to it; {self._job.log(0)} says why")
        try:
            runs = self._stepwatchd.get("/v1/runs")["runs"]
        except JobError:
            return None
        found = [run for run in runs if run["world"] == WORLD and (run["step"] or 0) >= STEPS_SEEN]
        return found[0] if found else None

    def _step(self) -> int:
        return int(self.run()["step"])

    def _play(self, fault: Fault) -> Outcome:
        if fault.steps_before > self._step():
            self._audience.waits_for_steps(fault, fault.steps_before)
            self._watcher.until(lambda: self._step() >= fault.steps_before, self._patience.steps)
        outcome = Outcome(fault, self._step())
        known = {incident["id"] for incident in self._watcher.incidents()}
        self._audience.begins(fault)
        messages = self._messages()
        began = time.monotonic()
        fault.begin(self._job)
        opened = self._watcher.wait(
            lambda incident: incident["state"] == "opened" and incident["id"] not in known, self._patience.notice
        )
        if opened is not None:
            outcome.delay = opened.at - began
            outcome.opened = outcome.last = opened.incident
            self._await_evidence(outcome)
            outcome.message = self._next_message(messages)
            outcome.alert = self._await_alert(opened.incident["id"])
        self._audience.noticed(outcome)
        if fault.heal is not None:
            self._heal(fault.heal, outcome)
        return outcome

    def _messages(self) -> int:
        return len(self._chat.of(ONCALL)) if self._chat else 0

    def _next_message(self, before: int) -> Message | None:
        chat = self._chat
        if chat is None:
            return None
        with contextlib.suppress(TimeoutError):
            self._watcher.until(lambda: len(chat.of(ONCALL)) > before, self._patience.deliver)
            return chat.of(ONCALL)[before]
        return None

    def _await_alert(self, incident: str) -> dict[str, Any] | None:
        alerting = self._alerting
        if alerting is None:
            return None
        with contextlib.suppress(TimeoutError):
            return dict(self._watcher.until(lambda: alerting.alert_of(incident), self._patience.deliver))
        return None

    def _await_evidence(self, outcome: Outcome) -> None:
        member = outcome.fault.evidence
        if not member or outcome.opened is None:
            return
        identity = outcome.opened["id"]
        change = self._watcher.wait(
            lambda incident: incident["id"] == identity and member in incident["evidence"], self._patience.evidence
        )
        self._take(change, outcome)

    def _heal(self, heal: Any, outcome: Outcome) -> None:
        self._audience.heals(outcome.fault)
        messages = self._messages()
        began = time.monotonic()
        heal(self._job)
        if outcome.opened is None:
            return
        identity = outcome.opened["id"]
        resolved = self._watcher.wait(
            lambda incident: incident["id"] == identity and incident["state"] == "resolved", self._patience.resolve
        )
        self._take(resolved, outcome)
        if resolved is not None:
            outcome.resolved_after = resolved.at - began
            outcome.message_resolved = self._next_message(messages)
        self._audience.resolved(outcome)

    @staticmethod
    def _take(change: Change | None, outcome: Outcome) -> None:
        if change is not None:
            outcome.last = change.incident


def complaints(outcomes: Sequence[Outcome], incidents: Sequence[Incident], are_delivered: bool = False) -> list[str]:
    """Return complaints: faults that were missed or reported as another kind, and incidents without a fault.

    Parameters
    ----------
    outcomes : sequence of Outcome
    incidents : sequence of dict
        All incidents of stepwatchd.
    are_delivered : bool
        Whether a missing alert or message is a complaint.
    """
    found = []
    for outcome in outcomes:
        fault, opened = outcome.fault, outcome.opened
        if opened is None:
            found.append(f"{fault.name}: not noticed")
            continue
        if opened["incident"] != fault.kind:
            found.append(f"{fault.name}: noticed as {opened['incident']}, which is {fault.kind}")
        ranks = (outcome.last or opened)["ranks"]
        if tuple(ranks) != fault.ranks:
            found.append(f"{fault.name}: the culprits are said to be {ranks}, and are {list(fault.ranks)}")
        if fault.heal is not None and outcome.resolved_after is None:
            found.append(f"{fault.name}: not resolved after it was over")
        if are_delivered and outcome.alert is None:
            found.append(f"{fault.name}: Alertmanager has no alert")
        if are_delivered and (outcome.message is None or (fault.heal is not None and outcome.message_resolved is None)):
            found.append(f"{fault.name}: the chat lacks a message")
    expected = {outcome.opened["id"] for outcome in outcomes if outcome.opened is not None}
    for incident in incidents:
        if incident["id"] not in expected:
            found.append(f"nothing was done that explains {incident['incident']} since step {incident['since_step']}")
    return found
