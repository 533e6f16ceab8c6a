// Puts measurements into CUDA graphs while they are captured, and marks in the ring the steps that replayed them.
#pragma once

#include "src/stats/engine.h"
#include "src/step/running_step.h"
#include "stepwatch/graph_recorder.h"

namespace stepwatch::step {

class GraphCapture final : public GraphRecorder {
 public:
  // Both outlive the capture.
  GraphCapture(const RunningStep* running, stats::Engine* engine) : running_(running), engine_(engine) {}

  void Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept override;
  void SetReplayStream(Device device, void* stream) noexcept override { engine_->graphs().SetStream(device, stream); }

  // Step thread: the step is over.
  void EndStep() noexcept;

 private:
  const RunningStep* const running_;
  stats::Engine* const engine_;
};

}  // namespace stepwatch::step
