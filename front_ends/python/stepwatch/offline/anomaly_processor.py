"""Alarms, their rules and their order. ``python -m stepwatch.anomaly_processor`` lists the first alarms."""

from __future__ import annotations

import argparse
import ast
import heapq
import json
import logging
import math
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

logger = logging.getLogger("stepwatch")

ANOMALY_JSON = "anomaly.json"
ANALYSE_JSON = "anomaly_analyse.json"

_STAGES = {"actv": 0}
_STAGES.update(dict.fromkeys(("actv_grad", "pre_grad", "post_grad", "acc_grad"), 1))
_STAGES.update(dict.fromkeys(("exp_avg", "exp_avg_sq"), 2))


class ScanRule:
    """Decides whether a value is an anomaly."""

    name: ClassVar[str] = "ScanRule"

    def apply(self, cur: float, history: float | None = None) -> bool:
        """Return whether ``cur`` is an anomaly, given the mean of the absolute values before it."""
        raise NotImplementedError("abstract method apply is not implemented")


class AnomalyTurbulence(ScanRule):
    """Reports a value that exceeds the mean so far by more than the fraction ``threshold``."""

    name = "AnomalyTurbulence"

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def apply(self, cur: float, history: float | None = None) -> bool:
        """Compare the absolute value; without a history no value is an anomaly."""
        return history is not None and abs(cur) > history * (1 + self.threshold)


class AnomalyNan(ScanRule):
    """Reports a NaN and, with a threshold, a value beyond it."""

    name = "AnomalyNan"

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def apply(self, cur: float, history: float | None = None) -> bool:
        """Check ``cur`` only."""
        return math.isnan(cur) or (self.threshold is not None and abs(cur) > self.threshold)


_RULES: dict[str, type[ScanRule]] = {rule.name: rule for rule in (AnomalyTurbulence, AnomalyNan)}


class AnomalyScanner:
    """Creates rules from their description in the config, and applies them."""

    @staticmethod
    def load_rules(specs: list[dict[str, Any]] | None) -> list[ScanRule]:
        """Return the rules of ``[{"rule_name": …, "args": {…}}]``; an unusable one is logged and left out."""
        rules: list[ScanRule] = []
        for spec in specs or []:
            name = spec.get("rule_name")
            if name not in _RULES:
                logger.error("unknown rule %r; known: %s", name, ", ".join(_RULES))
                continue
            try:
                rules.append(_RULES[name](**(spec.get("args") or {})))
            except TypeError as error:
                if not spec.get("args"):
                    logger.warning(f"Spec is missing required keys: {spec}")
                else:
                    logger.error("the rule %s was left out: %s", name, error)
        return rules

    @staticmethod
    def scan(scan_rules: Iterable[ScanRule], history: float | None, cur: float) -> tuple[bool, str | None]:
        """Return whether a rule finds an anomaly, and the name of the first such rule."""
        for rule in scan_rules:
            if rule.apply(cur, history=history):
                return True, rule.name
        return False, None


@dataclass(eq=True)
class GradAnomalyData:
    """One alarm. Alarms are ordered by step and micro-step, then by the order of a training step."""

    rank: int = 0
    step: int = 0
    micro_step: int = 0
    pp_stage: int = 0
    vpp_stage: int = 0
    call_id: int = 0
    tag_name: str | None = field(default=None, compare=False)
    message: str = field(default="", compare=False)
    group_mates: list[int] | None = field(default=None, compare=False)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, GradAnomalyData):
            return NotImplemented
        return self._order() < other._order()

    def __le__(self, other: object) -> bool:
        if not isinstance(other, GradAnomalyData):
            return NotImplemented
        return self == other or self._order() < other._order()

    def _order(self) -> tuple[int, ...]:
        stage = self.get_train_stage(self.tag_name)
        sign = 1 if stage == 0 else -1
        return (self.step, self.micro_step, stage, sign * self.vpp_stage, sign * self.pp_stage, self.call_id)

    @staticmethod
    def get_train_stage(tag_name: str | None) -> int:
        """Return 0 for forward, 1 for backward, 2 for the optimizer, -1 outside of these stages."""
        return _STAGES.get((tag_name or "").rsplit("/", 1)[-1], -1)

    def to_dict(self) -> dict[str, Any]:
        """Return the alarm in the form of anomaly.json."""
        return asdict(self)

    def get_key(self) -> str:
        """Return the key of the alarm in anomaly.json."""
        return f"{self.tag_name}_step_{self.step}_call_{self.call_id}"


class AnomalyDataFactory:
    """Creates alarms of one rank."""

    def __init__(self, rank: int, pp_stage: int, group_mates: list[int]) -> None:
        self.rank = rank
        self.pp_stage = pp_stage
        self.group_mates = group_mates
        self.micro_step = 0
        self.name2callid: dict[str, int] = {}

    def set_call_id(self, name2callid: dict[str, int]) -> None:
        """Set the order of calls in this step, by tag."""
        self.name2callid = dict(name2callid)

    def create(self, tag: tuple[str, str], message: str, step: int) -> GradAnomalyData:
        """Return the alarm of ``(tag, op)``; ValueError if the argument is not such a pair."""
        if not isinstance(tag, tuple) or len(tag) != 2:
            raise ValueError("tag must be a tuple with length 2")
        name = tag[0]
        chunk, _, rest = name.partition(":")
        micro_step = rest.partition("/")[0].rpartition(":")[2] if ":" in rest else ""
        return GradAnomalyData(
            self.rank,
            step,
            int(micro_step) if micro_step.isdigit() else self.micro_step,
            self.pp_stage,
            int(chunk) if rest else 0,
            self.name2callid.get(name, -1),
            name,
            message,
            self.group_mates,
        )


class AnomalyDataWriter:
    """Writes alarms of one rank to ``{dump_path}/rank{rank}/anomaly.json``."""

    def __init__(self, dump_path: str, rank: int) -> None:
        self.dump_path = dump_path
        self.dump_rank_dir = os.path.join(dump_path, f"rank{rank}")
        self.json_path = os.path.join(self.dump_rank_dir, ANOMALY_JSON)

    @staticmethod
    def get_anomaly_dict(anomalies: Iterable[GradAnomalyData]) -> dict[str, dict[str, Any]]:
        """Return the alarms in the form of anomaly.json."""
        return {anomaly.get_key(): anomaly.to_dict() for anomaly in anomalies}

    def init_detected_json(self) -> None:
        """Create an empty file."""
        os.makedirs(self.dump_rank_dir, exist_ok=True)
        _write_json(self.json_path, {})

    def write_detected_json(self, anomalies: Iterable[GradAnomalyData]) -> None:
        """Add alarms to the file."""
        known = json.loads(Path(self.json_path).read_text(encoding="utf-8") or "{}")
        _write_json(self.json_path, {**known, **self.get_anomaly_dict(anomalies)})


class AnomalyDataLoader:
    """Reads alarms of all ranks."""

    def __init__(self, data_path: str) -> None:
        self.data_path = data_path

    @staticmethod
    def create_instances_from_dict(anomalies_dict: dict[str, dict[str, Any]]) -> list[GradAnomalyData]:
        """Return the alarms of one file; unknown fields are skipped, entries that are not alarms are logged."""
        names = GradAnomalyData.__dataclass_fields__
        anomalies = []
        for key, values in anomalies_dict.items():
            if not isinstance(values, dict) or "step" not in values:
                logger.warning("%s is not an alarm and was left out", key)
                continue
            anomalies.append(GradAnomalyData(**{name: value for name, value in values.items() if name in names}))
        return anomalies

    def get_anomalies_from_jsons(self) -> list[GradAnomalyData]:
        """Return the alarms of every ``rank*/anomaly.json``."""
        anomalies: list[GradAnomalyData] = []
        for path in sorted(Path(self.data_path).glob(f"rank*/{ANOMALY_JSON}")):
            anomalies += self.create_instances_from_dict(json.loads(path.read_text(encoding="utf-8") or "{}"))
        return anomalies


class AnomalyAnalyse:
    """Finds the first alarms."""

    def __init__(self) -> None:
        self.sorted_anomalies: list[GradAnomalyData] = []

    def get_range_top_k(
        self, topk: int, step_list: list[int], anomalies: list[GradAnomalyData]
    ) -> list[GradAnomalyData]:
        """Return the first ``topk`` alarms in order; a non-empty ``step_list`` selects steps."""
        if step_list:
            anomalies = [anomaly for anomaly in anomalies if anomaly.step in step_list]
        self.sorted_anomalies = sorted(anomalies) if topk >= len(anomalies) else heapq.nsmallest(topk, anomalies)
        return self.sorted_anomalies

    def rewrite_sorted_anomalies(self, output_path: str) -> None:
        """Write the found alarms to ``{output_path}/anomaly_analyse.json``."""
        _write_json(os.path.join(output_path, ANALYSE_JSON), AnomalyDataWriter.get_anomaly_dict(self.sorted_anomalies))


def _write_json(path: str, content: dict[str, Any]) -> None:
    """Replace a file once the new one is complete."""
    temporary = os.path.join(os.path.dirname(path), f".stepwatch-{os.path.basename(path)}-{os.getpid()}")
    try:
        Path(temporary).write_text(json.dumps(content, indent=1), encoding="utf-8")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _get_parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="anomaly_processor", description="Sort the alarms of all ranks and list the first ones."
    )
    parser.add_argument("-d", "--data_path", dest="data_path_dir", required=True, help="the directory anomaly_detected")
    parser.add_argument("-o", "--out_path", dest="out_path", default="", help="existing directory for the result")
    parser.add_argument("-k", "--topk", dest="top_k_number", default=8, type=int, help="alarms to list, default 8")
    parser.add_argument(
        *("-s", "--step", "--step_list"), dest="step_list", default="[]", help="only these steps, for instance [3, 7]"
    )
    return parser.parse_args(sys.argv[1:])


def _get_step_and_stop(args: argparse.Namespace) -> tuple[list[int], int]:
    """Return the steps and the number of alarms; ValueError names the unusable one."""
    try:
        step_list = ast.literal_eval(args.step_list)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("The step list must be a resolvable list type.") from error
    if not isinstance(step_list, list) or not all(isinstance(step, int) for step in step_list):
        raise ValueError("The step list must be a resolvable list type.")
    if args.top_k_number <= 0:
        raise ValueError("The top k number must be greater than 0.")
    return step_list, args.top_k_number


def _anomaly_analyse() -> None:
    from stepwatch import _core

    args = _get_parse_args()
    step_list, top_k = _get_step_and_stop(args)
    found = _core.sort_anomalies(
        os.path.expanduser(args.data_path_dir), os.path.expanduser(args.out_path), top_k, step_list
    )
    print(f"{found['output']}, of {found['found']} anomalies")
    print(f"Top {top_k} anomalies are listed as follows:")
    for place, message in enumerate(found["messages"]):
        print(f"{place}: {message}")


def _run_as_command() -> int:
    """Run the analysis; an unusable argument or file prints one line and exits with code 2."""
    try:
        _anomaly_analyse()
    except (OSError, ValueError, RuntimeError) as error:
        print(f"anomaly_processor: error: {error}", file=sys.stderr)
        return 2
    return 0
