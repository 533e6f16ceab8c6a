// Measures tensors inside captured CUDA graphs, whose replays run no hooks.
//
// A tensor that is observed while its stream captures becomes part of the graph and has no row at that time. Afterwards
// the trainer calls Monitor::EndStep after each replay; EndStep adds a row for the step if the step replayed the graph
// and the plan in force watches the site. That plan may be newer than the capture. After several replays in one step
// the numbers of the last replay count.
//
// After Monitor::Close and in a forked child Capture adds no rows.
#pragma once

#include "stepwatch/record.h"
#include "stepwatch/site.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

// Valid as long as the Monitor that returned it.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  // Adds `site`, filled as in a RecordLayout, to the graph that the tensor's stream captures (`at.site` is ignored).
  // Does nothing if the stream does not capture. Unlike Recorder::Observe it works in every step, with or without a
  // plan.
  virtual void Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept = 0;
  // Sets the stream on which the graphs of `device` are replayed; the default is the legacy default stream. Other
  // streams with replays must be joined to it by the end of the step. Step thread, between steps.
  virtual void SetReplayStream(Device device, void* stream) noexcept = 0;
};

}  // namespace stepwatch
