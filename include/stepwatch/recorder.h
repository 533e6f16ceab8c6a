// What the hooks of a model call inside a step.
//
// Threads: the step thread, and autograd threads that run inside the step. No call waits, formats, opens files or
// throws, and none but ObserveHeatmaps takes a lock: a record goes through a ring to the drain thread. In a step that
// is not collected, or not for the site, after Monitor::Close and in a forked child the calls do nothing.
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

// A Recorder lives as long as the Monitor that gave it.
class Recorder {
 public:
  // Both outlive the recorder.
  Recorder(const std::atomic<bool>* collecting, const std::atomic<GroupSet>* due)
      : collecting_(collecting), due_(due) {}
  virtual ~Recorder() = default;

  // True if the running step is collected: one relaxed load.
  bool collecting() const noexcept { return collecting_->load(std::memory_order_relaxed); }
  // Of a collected step: true if sites of one of these groups (PlannedSite::group) are collected in it. What is
  // observed of others is passed over, so this only saves the work of getting there.
  bool collects(GroupSet groups) const noexcept { return (due_->load(std::memory_order_relaxed) & groups) != 0; }

  // A module of SiteIndex::modules, by its position, was entered or left in this micro-batch: leaves it in the pulse,
  // so that whoever looks from outside sees where it is. One store, and nothing in a step that is not collected.
  void NoteModule(uint32_t module, bool entered, int32_t micro_batch) noexcept {
    if (collecting()) MarkModule(module, entered, micro_batch);
  }

  // Measures a tensor and enqueues its record. A CPU tensor is read before this returns; the reading of one in CUDA
  // memory is queued on its stream, and its numbers follow.
  void Observe(const Observation& at, const TensorView& tensor) noexcept {
    if (!collecting()) return;
    Record record;
    if (Measure(at, tensor, &record)) Enqueue(record);
  }
  // The same for `count` tensors, in their order: those that lie together on one device are measured in one go, in CPU
  // memory on the threads of Options::parallel_for, in CUDA memory in few launches.
  virtual void ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept = 0;
  // A hook fired without a tensor: records a row of nan.
  virtual void ObserveMissing(const Observation& at) noexcept = 0;
  // An L2 feature, which the front end has computed itself: `count` numbers, one for each column of the site's kind
  // (ColumnsOf); NaN where there is none. Another count is a dropped record, unsupported.
  virtual void ObserveValues(const Observation& at, const double* values, size_t count) noexcept = 0;
  // What the running step adds to heat maps, which the front end has counted itself: all of it in one call, which holds
  // a lock for as long as it takes to put the columns down. Keeps only columns of sites that have heat maps in the plan
  // in force.
  virtual void ObserveHeatmaps(std::vector<HeatmapColumn> columns) noexcept = 0;
  // mg_direction: the share of elements whose signs agree, recorded as a 0-d fp32 tensor.
  virtual void ObserveAgreement(const Observation& at, const TensorView& gradient,
                                const TensorView& momentum) noexcept = 0;

  // Observe in two parts, for a tensor that a module is about to overwrite: Measure before, Enqueue after, or Discard
  // if nothing came of it. Measure returns false if there is nothing to enqueue.
  virtual bool Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept = 0;
  virtual void Enqueue(const Record& record) noexcept = 0;
  virtual void Discard(const Record& record) noexcept = 0;

  // The front end measures tensors itself where there is no engine for them, and gives their numbers so. Without it
  // they are dropped, counted as unsupported, and an event says why. Before the first Monitor::Attach.
  virtual void SetLateResults(std::shared_ptr<LateResults> results) noexcept = 0;
  // Whether tensors on this device are measured here. The first call for a CUDA device makes its engine.
  virtual bool Measures(Device device) noexcept = 0;
  virtual ZerosRule zeros_rule() const noexcept = 0;
  // Measure for a tensor that the front end measures itself: the record waits for the numbers of `ticket`. Of `tensor`
  // only dtype and shape are used. False: there is nothing to enqueue, and the ticket has been discarded.
  virtual bool MeasureLate(const Observation& at, const TensorView& tensor, const LateTicket& ticket,
                           Record* record) noexcept = 0;
  // The trainer's thread has spent this on the numbers of all sites together, as in copying them off a device.
  virtual void AddTime(std::chrono::nanoseconds spent) noexcept = 0;

 private:
  virtual void MarkModule(uint32_t /*module*/, bool /*entered*/, int32_t /*micro_batch*/) noexcept {}

  const std::atomic<bool>* const collecting_;
  const std::atomic<GroupSet>* const due_;
};

}  // namespace stepwatch
