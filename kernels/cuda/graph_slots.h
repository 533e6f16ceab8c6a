// Measuring inside of a captured CUDA graph, where a launch is recorded once and replayed at every step.
//
// A ticket would be the same at each replay. So a captured tensor has a fixed slot, and its results go into `depth`
// rows in turn: row s % depth at device step s, a counter in device memory that Flush advances. A word in device memory
// switches all captured launches off and on without touching the graph.
//
// Use: Capture for each tensor and one Flush at the end of the step, while the stream captures (or does not: then they
// run at once, which also loads the kernels; do so before the first capture). At replay nothing of ours runs on the
// host. Each captured launch keeps its own scratch memory, so branches of a graph may run side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/driver.h"
#include "kernels/kernels.h"

namespace stepwatch::kernels::cuda {

struct GraphSlotsOptions {
  int device = 0;
  uint32_t slots = 4096;
  uint32_t depth = 4;                       // steps that the reader may be late; at least 3
  size_t scratch_bytes = size_t{32} << 20;  // 64 bytes for each 64 KB captured
};

class GraphSlots {
 public:
  // `driver` must outlive it. kExhausted: the device has not enough memory.
  static Result<std::unique_ptr<GraphSlots>> Create(Driver* driver, const GraphSlotsOptions& options);

  // --- the trainer's thread ---

  // Queues (or records) the measurement of `tensor` into `slot` on the stream of the view. Once for each slot.
  // kExhausted: the scratch memory is used up. Others as in DeviceItem.
  StatusCode Capture(uint32_t slot, const TensorView& tensor, const MeasureOptions& options);
  // Ends the device's step.
  StatusCode Flush(Stream stream);
  // Outside of a capture: what is replayed on `stream` from now on measures, or does not. Steps go on either way.
  StatusCode Enable(bool enabled, Stream stream);

  // --- any one reader; no call into the driver ---

  // False: that step of the slot is not there yet, was not measured, or was overwritten `depth` steps later.
  bool Read(uint32_t slot, uint64_t step, Statistics* statistics) const;

 private:
  struct Note {
    int64_t count = 0;
    int64_t repeat = 1;
    DType dtype = DType::kOther;  // kOther: nothing captured
  };

  GraphSlots(Driver* driver, const GraphSlotsOptions& options);
  bool Allocate();
  bool LendScratch(uint32_t tiles, uint32_t groups, Launch* launch);

  Driver* const driver_;
  const GraphSlotsOptions options_;
  Mapped results_;
  Mapped words_;  // pinned: 0 and 1, the sources of Enable
  uint32_t* enabled_ = nullptr;
  uint64_t* step_ = nullptr;
  char* scratch_ = nullptr;
  size_t scratch_used_ = 0;
  std::vector<Note> notes_;
};

}  // namespace stepwatch::kernels::cuda
