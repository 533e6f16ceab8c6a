// Measurements in a captured CUDA graph, where a launch is recorded once and replayed many times.
//
// A ticket would be the same at each replay. So a captured tensor has a permanent slot, and its results go into `depth`
// rows in turn: row s % depth in device step s. The step is a counter in device memory that EndStep advances outside of
// the graph, in stream order. The same launch reports to mapped memory that step s is over; a slot without a result of
// step s by then was not replayed in it. A word in device memory switches all captured launches off and on without
// touching the graph.
//
// Each captured launch keeps its own scratch memory, so branches of a graph, and different graphs, may run
// concurrently. Memory is never freed after a capture: a graph may be replayed at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/answers.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/pair.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels::cuda {

struct GraphSlotsOptions {
  int device = 0;
  uint32_t slots = 4096;
  uint32_t depth = 16;  // steps that the reader may lag; at least 3
  size_t scratch_bytes = 4096 * kGraphScratchPerSlot;
};

class GraphSlots {
 public:
  // `driver` must outlive it. kExhausted: the device has not enough memory.
  static Result<std::unique_ptr<GraphSlots>> Create(Driver* driver, const GraphSlotsOptions& options);

  // --- threads of the trainer, one at a time ---

  // Records (or, on a stream that does not capture, runs) the measurement of tensors, in as few launches as possible.
  // Each gets a slot, which is the item's ticket.
  void Capture(DeviceItem* items, size_t count, const MeasureOptions& options, Stream stream) noexcept;
  // The same for a sign agreement; the result belongs to `item`.
  void CaptureAgreement(const Pair& pair, Stream stream, DeviceItem* item) noexcept;
  // Ends the device step `*ended`.
  StatusCode EndStep(Stream stream, uint64_t* ended) noexcept;
  // Replays queued on `stream` after this call measure (the default) or skip.
  StatusCode Switch(bool on, Stream stream) noexcept;

  size_t slots() const { return options_.slots; }

  // --- any one reader; no call into the driver ---

  GraphAnswer Read(uint32_t slot, uint64_t step, Statistics* statistics) const noexcept;

 private:
  // Input of a captured launch: the tensor, or a byte of the driver's memory in place of an empty one.
  struct Source {
    Layout layout;
    DType dtype = DType::kFloat32;
  };

  GraphSlots(Driver* driver, const GraphSlotsOptions& options);
  bool Allocate();
  bool LendScratch(uint32_t tiles, uint32_t groups, Launch* launch) noexcept;
  bool TakeSlot(const Note& note, DeviceItem* item) noexcept;
  StatusCode SourceOf(const TensorView& tensor, Source* source) const noexcept;
  Source Witness() const noexcept;
  void Pack(Packer* packer, const Source& source, DeviceItem* item, DeviceItem* items, size_t count,
            const MeasureOptions& options, Stream stream) noexcept;
  void RunAll(const Packer& packer, DeviceItem* items, size_t count, const MeasureOptions& options,
              Stream stream) noexcept;
  StatusCode Run(const Segment& segment, const MeasureOptions& options, Stream stream) noexcept;

  Driver* const driver_;
  const GraphSlotsOptions options_;
  Mapped results_;
  Mapped done_;   // completed device steps
  Mapped words_;  // pinned: the values 0 and 1 that Switch copies
  uint32_t* off_ = nullptr;
  uint64_t* step_ = nullptr;
  char* scratch_ = nullptr;
  size_t scratch_used_ = 0;
  uint32_t slots_used_ = 0;
  uint64_t steps_ended_ = 0;  // value of the device counter once all queued work has run
  Launch launch_{};
  std::vector<Note> notes_;  // written before the slot is returned
};

}  // namespace stepwatch::kernels::cuda
