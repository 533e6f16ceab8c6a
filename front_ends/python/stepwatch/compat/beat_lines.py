"""Lines that stepwatchd reads (docs/formats/beats.md), made of the messages of InternEvo's light monitor."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

# InternEvo's codes for a gradient norm that it could not compute.
_NORM_CODES = {-1.0: math.inf, -2.0: math.nan}
_NUMBERS_MAX = 60
_NAME_BYTES_MAX = 200
_TEXT_KEYS = {"msg_type", "cluster", "step", "phase", "module"}
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.DOTALL)
_PHASES = {"init_time": "init", "train_metrics": "train"}
_SIGNAL = re.compile(r"Process received signal\b")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?<=rank)(?:[ =:]*)\d+|(?<=cuda:)\d+|(?<=npu:)\d+", re.IGNORECASE)


def clean_name(name: str) -> str:
    """Return a name as InternEvo sends it: up to the first blank, of letters, digits and underscores."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", str(name).split(" ")[0])


def flatten(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with clean names; a dictionary in it becomes one entry `outer_inner` for each of its own."""
    flat: dict[str, Any] = {}
    for name, value in message.items():
        if isinstance(value, Mapping):
            flat.update({clean_name(f"{name}_{inner}"): of_inner for inner, of_inner in value.items()})
        else:
            flat[clean_name(name)] = value
    return flat


def numbers_of(data: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a heartbeat under the names of a beat.

    Gradient norms of parameter groups (`grad_norm_0_default`) keep their names, and `grad_norm` is the norm of all.
    The codes -1 (overflow) and -2 (NaN) of such a norm become infinity and NaN. InternEvo's own client sends null
    instead of NaN: for `loss` and gradient norms it is NaN here, elsewhere it is left out.
    """
    numbers: dict[str, float] = {}
    norms: list[float] = []
    for name, value in data.items():
        if name in _TEXT_KEYS:
            continue
        is_norm = name == "grad_norm" or name.startswith("grad_norm_")
        if value is None and (is_norm or name == "loss"):
            value = math.nan
        number = _number_of(value)
        if number is None:
            continue
        if is_norm:
            number = _NORM_CODES.get(number, number)
            norms.append(number)
        numbers[name] = number
    if norms and "grad_norm" not in numbers:
        numbers["grad_norm"] = math.sqrt(sum(norm * norm for norm in norms))
    return numbers


def _number_of(value: Any) -> float | None:
    if isinstance(value, (str, bytes)) or value is None:
        return None
    device = getattr(value, "device", None)
    if getattr(device, "type", device) not in (None, "cpu"):
        return None  # the copy from a device would wait for it
    if isinstance(value, (bool, int)) and abs(value) < 2**63:
        return int(value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def step_of(data: Mapping[str, Any]) -> int | None:
    """Return the step of a heartbeat; None: it has none."""
    number = _number_of(data.get("step"))
    return int(number) if number is not None and math.isfinite(number) and number >= 0 else None


def beat_of(data: Mapping[str, Any], last_step: int) -> dict[str, Any]:
    """Return the beat of a heartbeat.

    Parameters
    ----------
    data : mapping
        As `send_meta` receives it: flat, with "msg_type".
    last_step : int
        The step of a message without one, such as "init_time".
    """
    step = step_of(data)
    beat: dict[str, Any] = {"step": last_step if step is None else step}
    phase = _PHASES.get(str(data.get("msg_type")))
    if phase is not None:
        beat["phase"] = phase
    known = numbers_of(data)
    # `grad_norm` is the last, and has to remain among the first.
    names = sorted(known, key=lambda name: name != "grad_norm")[:_NUMBERS_MAX]
    beat.update({name[:_NAME_BYTES_MAX]: _json_number(known[name]) for name in names})
    return beat


def exception_of(text: str) -> dict[str, Any]:
    """Return the event of a traceback's last lines, or of InternEvo's message about SIGTERM."""
    if _SIGNAL.match(text):
        return {"kind": "signal", "number": 15}
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    match = _EXCEPTION.fullmatch(last.strip())
    kind, message = (match[1], match[2] or "") if match else ("Exception", last.strip())
    return {
        "kind": "exception",
        "type": kind,
        "message": message,
        "stack": text,
        "fingerprint": exception_fingerprint(text),
    }


def exception_fingerprint(text: str) -> str:
    """Return an id of a traceback that is the same on every rank: addresses and rank numbers do not change it."""
    return hashlib.sha256(_VARYING.sub("#", text.strip()).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def line_of(run: str, rank: int, time: float, **content: Any) -> str:
    """Return one line; `content` is `beat` or `event`."""
    return json.dumps({"t": time, "run": run, "rank": rank, **content}, allow_nan=False)


def _json_number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
