// Adds measurements to CUDA graphs during their capture, and marks the steps that replayed them in the ring.
#pragma once

#include "src/stats/engine.h"
#include "src/step/running_step.h"
#include "stepwatch/graph_recorder.h"

namespace stepwatch::step {

class GraphCapture final : public GraphRecorder {
 public:
  // Both must outlive the object.
  GraphCapture(const RunningStep* running, stats::Engine* engine) : running_(running), engine_(engine) {}

  void Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept override;
  void SetReplayStream(Device device, void* stream) noexcept override { engine_->graphs().SetStream(device, stream); }

  // Step thread: called when the step is over.
  void EndStep() noexcept;

 private:
  const RunningStep* const running_;
  stats::Engine* const engine_;
};

}  // namespace stepwatch::step
