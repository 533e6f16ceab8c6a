// Measuring inside of a captured CUDA graph, where a launch is recorded once and replayed many times.
//
// A ticket would be the same at each replay. So a captured tensor has a slot for good, and its results go into `depth`
// rows in turn: row s % depth in device step s, a counter in device memory that EndStep advances from outside of the
// graph, in the order of its stream. With the same launch the host learns, in mapped memory, that step s is over, so a
// slot that holds nothing of step s by then was not replayed in it. A word in device memory switches all captured
// launches off and on without touching the graph.
//
// Each captured launch keeps its own scratch memory, so branches of a graph, and different graphs, may run side by
// side. None of the memory is freed once something was captured: a graph may be replayed at any time.
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
  uint32_t depth = 16;  // steps that the reader may be late; at least 3
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
  // The same for the agreement of two; the answer goes to `item`.
  void CaptureAgreement(const Pair& pair, Stream stream, DeviceItem* item) noexcept;
  // Ends the device step `*ended`.
  StatusCode EndStep(Stream stream, uint64_t* ended) noexcept;
  // What is replayed behind this on `stream` measures, as at first, or does not.
  StatusCode Switch(bool on, Stream stream) noexcept;

  size_t slots() const { return options_.slots; }

  // --- any one reader; no call into the driver ---

  GraphAnswer Read(uint32_t slot, uint64_t step, Statistics* statistics) const noexcept;

 private:
  // What a captured launch reads: the tensor, or a byte of ours that stands for one without elements.
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
  Mapped done_;   // device steps that are over
  Mapped words_;  // pinned: 0 and 1, the sources of Switch
  uint32_t* off_ = nullptr;
  uint64_t* step_ = nullptr;
  char* scratch_ = nullptr;
  size_t scratch_used_ = 0;
  uint32_t slots_used_ = 0;
  uint64_t steps_ended_ = 0;  // what the counter on the device will be when all that is queued has run
  Launch launch_{};
  std::vector<Note> notes_;  // written before the slot is handed out
};

}  // namespace stepwatch::kernels::cuda
