// The step thread's side of the monitor: the running step, its recorders, and the switch between plans.
#pragma once

#include <chrono>
#include <cstdint>

#include "src/stats/engine.h"
#include "src/step/graph_capture.h"
#include "src/step/plan_switch.h"
#include "src/step/pulse_writer.h"
#include "src/step/ring_recorder.h"
#include "src/step/running_step.h"
#include "src/step/step_gate.h"
#include "src/step/wake_up.h"

namespace stepwatch::step {

struct DataPlane {
  // `engine` and `drain_wake_up` must outlive the data plane.
  DataPlane(int64_t first_step, stats::Engine* engine, WakeUp* drain_wake_up,
            std::chrono::milliseconds decision_wait = std::chrono::milliseconds(200))
      : gate(first_step, decision_wait),
        running(first_step, &gate),
        pulse(first_step),
        recorder(&running, engine, drain_wake_up, &pulse),
        graphs(&running, engine),
        plans(&running, &gate, &graphs, &engine->graphs(), drain_wake_up, &pulse) {}

  bool InOwner() const noexcept { return running.InOwner(); }

  StepGate gate;
  RunningStep running;
  PulseWriter pulse;
  RingRecorder recorder;
  GraphCapture graphs;
  PlanSwitch plans;
};

}  // namespace stepwatch::step
