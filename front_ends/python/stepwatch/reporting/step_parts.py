"""Numbers of the parts of a step, as `_core.Session.enter_part` takes them (StepPart in stepwatch/report.h)."""

REST = 0
DATA = 1
OPTIMIZER = 2
UNKNOWN = 3
FORWARD = 4
BACKWARD = 5
COMMUNICATION = 6

# Parts that a program can set.
PARTS = {"data": DATA, "optimizer": OPTIMIZER}
# Keys of parts in beats.
INNER_PARTS = {FORWARD: "forward_seconds", BACKWARD: "backward_seconds", COMMUNICATION: "communication_seconds"}
