// Turns tensors into the values of records: the seam between the kernels and the data plane.
//
// A tensor in CPU memory is measured before the call returns. For one in device memory the measurement is queued, and
// the record is pending until Harvest has fetched its numbers. If that measurement has become part of a CUDA graph,
// there is no record: Keep remembers it, and every replay may give a row, which HarvestGraphs fetches.
//
// Belongs to the run, not to a plan: it keeps running across swaps.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device_engine.h"
#include "kernels/kernels.h"
#include "src/device/devices.h"
#include "src/device/graph_clock.h"
#include "src/device/graph_reader.h"
#include "stepwatch/late_results.h"
#include "stepwatch/parallel_for.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::stats {

struct EngineOptions {
  device::MakeDeviceEngine make_device_engine;  // empty: tensors in device memory are not measured
  size_t device_results_max = 16384;            // under way at once, on each device
  ParallelFor parallel_for = nullptr;           // lent threads for CPU tensors
};

// Room for a batch, allocated once. One batch at a time.
class BatchRoom {
 public:
  explicit BatchRoom(size_t tensors) : cpu_(tensors), device_(tensors) {}
  size_t capacity() const { return cpu_.size(); }

 private:
  friend class Engine;
  std::vector<kernels::BatchItem> cpu_;
  std::vector<kernels::DeviceItem> device_;
};

class Engine {
 public:
  explicit Engine(EngineOptions options = {});

  // Numbers of tensors that the front end measures; it then measures all for which there is no engine here. Before any
  // other call.
  void SetLateResults(std::shared_ptr<LateResults> results) noexcept;

  // --- threads of the trainer, several at once; nothing here waits, throws or builds texts ---

  // Fills dtype, dims and either values or a claim into `record`. On an error the record is untouched: kUnsupported,
  // kInvalid, kUnavailable: nothing can measure this tensor (TakeDiagnostics says why); kExhausted: too many results
  // wait for their reader; kInternal: the plan asks for more than a record holds.
  StatusCode Enqueue(const RecordLayout& layout, const kernels::MeasureOptions& options, const TensorView& tensor,
                     Record* record) noexcept;
  // The same for the sign agreement of two tensors, recorded as a 0-d fp32 tensor.
  StatusCode EnqueueAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options,
                              const TensorView& gradient, const TensorView& momentum, Record* record) noexcept;
  // Measures as many of `tensors`, from the first on, as lie on the device of the first and fit into `room`; returns
  // how many. Then Take gives each: what Enqueue would have given. `at` names the site of each.
  size_t EnqueueBatch(const RecordLayout& layout, const kernels::MeasureOptions& options, const Observation* at,
                      const TensorView* tensors, size_t count, BatchRoom* room) noexcept;
  StatusCode Take(const RecordLayout& layout, const BatchRoom& room, size_t i, const TensorView& tensor,
                  Record* record) noexcept;
  // Fills dtype, dims and a claim on the front end's numbers into `record`, or discards the ticket: kUnsupported: there
  // are no such numbers; kInternal as above.
  StatusCode TakeLate(const RecordLayout& layout, const TensorView& tensor, const LateTicket& ticket,
                      Record* record) noexcept;
  void DiscardLate(uint64_t ticket) noexcept;
  // Nobody will harvest this record, if it is pending: Sweep gives its ticket back to the device. Any thread.
  void Discard(const Record& record) noexcept;
  // Remembers a record that IsCaptured: the graph observes `site`, and gives a row of it at each replay.
  void Keep(const PlannedSite& site, const kernels::MeasureOptions& options, const Record& captured) noexcept;
  // A measurement of this tensor would become part of a CUDA graph.
  bool IsCapturing(const TensorView& tensor) noexcept;
  // Tensors of this device are measured here.
  bool Measures(Device device) noexcept;
  // Makes the engine of a device now rather than with its first tensor.
  void Prepare(Device device) noexcept;

  // The step thread's, between steps.
  device::GraphClock& graphs() noexcept { return graphs_; }

  size_t device_results_max() const { return devices_.results_max(); }

  // --- the reader's thread: one at a time ---

  // True if the record's numbers are there: it is then no longer pending.
  bool Harvest(const RecordLayout& layout, const kernels::MeasureOptions& options, Record* record) noexcept;
  // Rows of what captured graphs measured in a step. False: the device is not through with it.
  bool HarvestGraphs(const kernels::DeviceStep& step, const device::GraphReader& reader, device::GraphRows* rows) {
    return reader.Harvest(&devices_, step, rows);
  }
  // Rows that the step may have, at most.
  size_t CountGraphRows(const kernels::DeviceStep& step, const device::GraphReader& reader,
                        GroupSet due) const noexcept {
    return reader.Count(devices_, step, due);
  }
  // Gives back the tickets of discarded records.
  void Sweep() noexcept { devices_.Sweep(); }
  // Adds what devices took for measurements that they are through with, and that was not taken yet: in nanoseconds, by
  // the site's kind, and kNoKind for a site that the layout did not have.
  void TakeDeviceTimes(kernels::DeviceTimes* ns) noexcept { devices_.TakeTimes(ns); }
  static constexpr size_t kNoKind = kSiteKindCount;
  std::vector<std::string> TakeDiagnostics() { return devices_.TakeDiagnostics(); }

 private:
  void AskDevice(kernels::DeviceItem* items, size_t count, const kernels::MeasureOptions& options) noexcept;
  StatusCode TakeMeasured(const RecordLayout& layout, const kernels::BatchItem& item, const TensorView& tensor,
                          Record* record) noexcept;
  StatusCode TakeTicket(const RecordLayout& layout, const kernels::DeviceItem& item, const TensorView& tensor,
                        Record* record) noexcept;
  StatusCode AskAgreement(const RecordLayout& layout, const TensorView& gradient, const TensorView& momentum,
                          Record* record) noexcept;
  StatusCode Refuse(const TensorView& tensor, StatusCode code) noexcept;
  StatusCode Refuse(const kernels::DeviceItem& item) noexcept;

  const ParallelFor parallel_for_;
  device::Devices devices_;
  device::GraphClock graphs_{&devices_};
  std::shared_ptr<LateResults> late_results_;
};

}  // namespace stepwatch::stats
