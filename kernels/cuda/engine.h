// Host side of the CUDA engine: tickets, batches, and which memory a launch may use.
//
// Threads of the trainer hold a mutex for a few microseconds while a launch is assembled; the reader never locks.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/answers.h"
#include "kernels/cuda/batch_clock.h"
#include "kernels/cuda/batch_table.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/graph_slots.h"
#include "kernels/cuda/packer.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/ticket_ring.h"
#include "kernels/device_engine.h"
#include "src/base/mutex.h"

namespace stepwatch::kernels::cuda {

class Engine : public DeviceEngine {
 public:
  // kExhausted: the device has not enough memory. `first_ticket` is for tests.
  static Result<std::unique_ptr<DeviceEngine>> Create(std::unique_ptr<Driver> driver,
                                                      const DeviceEngineOptions& options, uint64_t first_ticket = 0);

  void Enqueue(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept override;
  DeviceItem EnqueueAgreement(const TensorView& a, const TensorView& b, uint8_t account) noexcept override;
  bool IsCapturing(void* stream) noexcept override;
  size_t graph_slots() const noexcept override;
  StatusCode EndGraphStep(void* stream, uint64_t* ended) noexcept override;
  StatusCode SwitchGraphs(void* stream, bool on) noexcept override;
  bool Harvest(uint64_t ticket, Statistics* statistics) noexcept override;
  void Discard(uint64_t ticket) noexcept override;
  void TakeTimes(DeviceTimes* ns) noexcept override;
  GraphAnswer HarvestGraph(uint32_t slot, uint64_t step, Statistics* statistics) noexcept override;

 private:
  Engine(std::unique_ptr<Driver> driver, const DeviceEngineOptions& options, Mapped results, uint64_t first_ticket);

  bool Allocate();
  StatusCode Prepare(const TensorView& tensor, Layout* layout) const noexcept;
  void EnqueueRun(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept;
  void MeasureInline(DeviceItem* items, const TicketRing::Range& tickets, const MeasureOptions& options,
                     Stream stream) noexcept STEPWATCH_REQUIRES(mutex_);
  void MeasureTable(BatchTable* table, DeviceItem* items, const TicketRing::Range& tickets,
                    const MeasureOptions& options, Stream stream) noexcept STEPWATCH_REQUIRES(mutex_);
  BatchTable* TableFor(const DeviceItem* items, size_t count, Stream stream) noexcept STEPWATCH_REQUIRES(mutex_);
  bool FillTable(BatchTable* table, const DeviceItem* items, size_t count) noexcept;
  uint32_t KernelBit(DType dtype) const noexcept;
  bool PrepareItem(uint64_t ticket, DeviceItem* item, Layout* layout) noexcept;
  void NoteItem(uint64_t ticket, const Layout& layout, DType dtype, DeviceItem* item) noexcept;
  void Refuse(uint64_t ticket, StatusCode code, DeviceItem* item) noexcept;
  // Launches the packed segments; rejects the items of launches that fail.
  void RunSegments(const Packer& packer, const Entry* entries, DeviceItem* items, const TicketRing::Range& tickets,
                   const MeasureOptions& options, Stream stream) noexcept STEPWATCH_REQUIRES(mutex_);
  bool RunSegment(const Segment& segment, const MeasureOptions& options, const TicketRing::Range& tickets,
                  Stream stream, Launch* launch) noexcept STEPWATCH_REQUIRES(mutex_);
  bool RunAgreement(const Pair& pair, const DeviceItem& item, const TicketRing::Range& tickets) noexcept
      STEPWATCH_REQUIRES(mutex_);
  // Returns true if the items, all on `stream`, are settled because a graph is being captured there.
  bool CapturedOrRefused(DeviceItem* items, size_t count, const MeasureOptions& options, Stream stream,
                         const Pair* pair) noexcept;
  Note& NoteFor(uint64_t ticket) { return notes_[ticket & ring_.mask()]; }

  const std::unique_ptr<Driver> driver_;
  const DeviceEngineOptions options_;
  ResultSlot* const device_results_;
  TicketRing ring_;
  std::vector<Note> notes_;  // written before the ticket is returned, read by its owner
  BatchClock clock_;         // Begin and End with mutex_ held

  base::Mutex mutex_;
  std::vector<std::unique_ptr<BatchTable>> tables_ STEPWATCH_GUARDED_BY(mutex_);
  ScratchAreas scratch_ STEPWATCH_GUARDED_BY(mutex_);
  std::unique_ptr<GraphSlots> graphs_;  // null: disabled; changed with mutex_ held; Read needs no lock
  Launch inline_launch_ STEPWATCH_GUARDED_BY(mutex_){};
  uint64_t uses_ STEPWATCH_GUARDED_BY(mutex_) = 0;
};

}  // namespace stepwatch::kernels::cuda
