// Calls that the hooks of a model make inside a step.
//
// Threads: the step thread, and autograd threads that run inside the step. No call waits, formats, opens files or
// throws, and only ObserveHeatmaps locks: records go through a ring to the drain thread, and a full ring drops and
// counts them. In a step that is not collected, or not for the site, after Monitor::Close and in a forked child calls
// do nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "stepwatch/heatmap.h"
#include "stepwatch/late_results.h"
#include "stepwatch/record.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

// Valid as long as the Monitor that returned it.
class Recorder {
 public:
  // Both must outlive the recorder.
  Recorder(const std::atomic<bool>* collecting, const std::atomic<GroupSet>* due)
      : collecting_(collecting), due_(due) {}
  virtual ~Recorder() = default;

  // Returns whether the running step is collected: one relaxed load.
  bool collecting() const noexcept { return collecting_->load(std::memory_order_relaxed); }
  // In a collected step: returns whether it collects sites of one of these groups (PlannedSite::group). Observations of
  // other groups are ignored in any case, so this only saves the work of making them.
  bool collects(GroupSet groups) const noexcept { return (due_->load(std::memory_order_relaxed) & groups) != 0; }

  // Marks in the pulse that a module, by its position in SiteIndex::modules, was entered or left in this micro-batch,
  // for observers outside the process. One store; does nothing in a step that is not collected.
  void NoteModule(uint32_t module, bool entered, int32_t micro_batch) noexcept {
    if (collecting()) MarkModule(module, entered, micro_batch);
  }

  // Measures a tensor and enqueues its record. A tensor in CPU memory is read before this returns. For one in CUDA
  // memory the read is queued on its stream, and the numbers follow.
  void Observe(const Observation& at, const TensorView& tensor) noexcept {
    if (!collecting()) return;
    Record record;
    if (Measure(at, tensor, &record)) Enqueue(record);
  }
  // The same for `count` tensors, in their order. Adjacent tensors on one device are measured together: in CPU memory
  // on the threads of Options::parallel_for, in CUDA memory in few launches.
  virtual void ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept = 0;
  // Records a row of nan for a hook that fired without a tensor.
  virtual void ObserveMissing(const Observation& at) noexcept = 0;
  // Records an L2 feature that the front end has computed: `count` numbers, one for each column of the site's kind
  // (ColumnsOf), NaN for a missing one. Another count drops the record as unsupported.
  virtual void ObserveValues(const Observation& at, const double* values, size_t count) noexcept = 0;
  // Adds the running step's columns of heat maps, counted by the front end. Expects all columns of a step in one call,
  // and holds a lock while it stores them. Keeps only columns of sites that have heat maps in the plan in force.
  virtual void ObserveHeatmaps(std::vector<HeatmapColumn> columns) noexcept = 0;
  // mg_direction: records the share of elements whose signs agree, as a 0-d fp32 tensor.
  virtual void ObserveAgreement(const Observation& at, const TensorView& gradient,
                                const TensorView& momentum) noexcept = 0;

  // Observe in two parts, for a tensor that a module is about to overwrite: Measure before the call, then Enqueue, or
  // Discard if the call fails. Measure returns false if there is nothing to enqueue.
  virtual bool Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept = 0;
  virtual void Enqueue(const Record& record) noexcept = 0;
  virtual void Discard(const Record& record) noexcept = 0;

  // Sets the front end's own measurements, for tensors on devices without an engine. Without them such tensors are
  // dropped and counted as unsupported, and an event has the reason. Call before the first Monitor::Attach.
  virtual void SetLateResults(std::shared_ptr<LateResults> results) noexcept = 0;
  // Returns whether the monitor measures tensors on this device. The first call for a CUDA device creates its engine.
  virtual bool Measures(Device device) noexcept = 0;
  virtual ZerosRule zeros_rule() const noexcept = 0;
  // Measure for a tensor that the front end measures itself: the record waits for the numbers of `ticket`. Uses only
  // dtype and shape of `tensor`. False: there is nothing to enqueue, and the ticket has been discarded.
  virtual bool MeasureLate(const Observation& at, const TensorView& tensor, const LateTicket& ticket,
                           Record* record) noexcept = 0;
  // Adds time that the trainer's thread spent on the numbers of all sites together, such as copying them off a device.
  virtual void AddTime(std::chrono::nanoseconds spent) noexcept = 0;

 private:
  virtual void MarkModule(uint32_t /*module*/, bool /*entered*/, int32_t /*micro_batch*/) noexcept {}

  const std::atomic<bool>* const collecting_;
  const std::atomic<GroupSet>* const due_;
};

}  // namespace stepwatch
