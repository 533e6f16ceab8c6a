// Watching captured CUDA graphs, in whose replays no hook runs.
//
// A tensor that is observed while its stream captures becomes part of the graph, and gives no row then. From then on
// Monitor::EndStep, which the trainer calls after each replay, gives the step a row of it if the graph was replayed in
// the step and the plan in force watches the site, whichever plan that is by then. Of several replays in one step the
// last one's numbers count.
//
// After Monitor::Close and in a forked child Capture does nothing.
#pragma once

#include "stepwatch/record.h"
#include "stepwatch/site.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

// A GraphRecorder lives as long as the Monitor that gave it.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  // Puts `site`, as a RecordLayout would have it, into the graph that the tensor's stream captures (`at.site` is not
  // used), and does nothing if the stream does not capture. Unlike Recorder::Observe it works in every step, with or
  // without a plan.
  virtual void Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept = 0;
  // Names the stream on which the graphs of a device are replayed, to which other streams with replays are joined by
  // the end of the step. Without it that is the legacy default stream. Step thread, between steps.
  virtual void SetReplayStream(Device device, void* stream) noexcept = 0;
};

}  // namespace stepwatch
