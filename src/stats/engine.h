// Turns tensors into the values of records: the seam between the kernels and the data plane.
//
// A tensor in CPU memory is measured before the call returns. For one in device memory the measurement is queued, and
// the record is pending until Harvest has fetched its numbers. If that measurement has become part of a CUDA graph,
// there is no record: Keep stores it, and every replay may produce a row, which HarvestGraphs fetches.
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
  size_t device_results_max = 16384;            // pending at once, on each device
  ParallelFor parallel_for = nullptr;           // threads for CPU tensors
};

// Buffers for a batch, allocated once. One batch at a time.
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

  // Results for tensors that the front end measures; it then measures all tensors without an engine here. Must precede
  // any other call.
  void SetLateResults(std::shared_ptr<LateResults> results) noexcept;

  // --- threads of the trainer, several at once; calls never wait, throw or build texts ---

  // Fills dtype, dims and either values or a ticket into `record`. On an error the record is unchanged: kUnsupported,
  // kInvalid, kUnavailable: this tensor cannot be measured (TakeDiagnostics explains why); kExhausted: too many results
  // wait for their reader; kInternal: the plan requests more than a record holds.
  StatusCode Enqueue(const RecordLayout& layout, const kernels::MeasureOptions& options, const TensorView& tensor,
                     Record* record) noexcept;
  // The same for the sign agreement of two tensors, recorded as a 0-d fp32 tensor.
  StatusCode EnqueueAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options,
                              const TensorView& gradient, const TensorView& momentum, Record* record) noexcept;
  // Measures as many of `tensors`, from the first on, as lie on the device of the first and fit into `room`; returns
  // their number. Then Take returns the result that Enqueue would have returned for each. `at` names the site of each.
  size_t EnqueueBatch(const RecordLayout& layout, const kernels::MeasureOptions& options, const Observation* at,
                      const TensorView* tensors, size_t count, BatchRoom* room) noexcept;
  StatusCode Take(const RecordLayout& layout, const BatchRoom& room, size_t i, const TensorView& tensor,
                  Record* record) noexcept;
  // Fills dtype, dims and a ticket of the front end into `record`, or discards the ticket: kUnsupported: no late
  // results are set; kInternal as above.
  StatusCode TakeLate(const RecordLayout& layout, const TensorView& tensor, const LateTicket& ticket,
                      Record* record) noexcept;
  void DiscardLate(uint64_t ticket) noexcept;
  // Gives a pending record up: Sweep returns its ticket to the device. Any thread.
  void Discard(const Record& record) noexcept;
  // Stores a record for which IsCaptured holds: the graph observes `site`, and each replay produces a row.
  void Keep(const PlannedSite& site, const kernels::MeasureOptions& options, const Record& captured) noexcept;
  // True if a measurement of this tensor would become part of a CUDA graph.
  bool IsCapturing(const TensorView& tensor) noexcept;
  // True if tensors of this device are measured here.
  bool Measures(Device device) noexcept;
  // Creates the engine of a device now rather than with its first tensor.
  void Prepare(Device device) noexcept;

  // For the step thread, between steps.
  device::GraphClock& graphs() noexcept { return graphs_; }

  size_t device_results_max() const { return devices_.results_max(); }

  // --- the reader's thread: one at a time ---

  // Returns true if the record's numbers are available: it is then no longer pending.
  bool Harvest(const RecordLayout& layout, const kernels::MeasureOptions& options, Record* record) noexcept;
  // Rows that captured graphs measured in a step. Returns false if the step is not over on the device.
  bool HarvestGraphs(const kernels::DeviceStep& step, const device::GraphReader& reader, device::GraphRows* rows) {
    return reader.Harvest(&devices_, step, rows);
  }
  // Upper limit of the step's rows.
  size_t CountGraphRows(const kernels::DeviceStep& step, const device::GraphReader& reader,
                        GroupSet due) const noexcept {
    return reader.Count(devices_, step, due);
  }
  // Returns the tickets of discarded records.
  void Sweep() noexcept { devices_.Sweep(); }
  // Adds the device time of completed measurements that was not taken yet: in nanoseconds, by the site's kind, and
  // kNoKind for a site that the layout did not have.
  void TakeDeviceTimes(kernels::DeviceTimes* ns) noexcept { devices_.TakeTimes(ns); }
  static constexpr size_t kNoKind = kSiteKindCount;
  std::vector<std::string> TakeDiagnostics() { return devices_.TakeDiagnostics(); }

 private:
  void EnqueueOnDevice(kernels::DeviceItem* items, size_t count, const kernels::MeasureOptions& options) noexcept;
  StatusCode TakeMeasured(const RecordLayout& layout, const kernels::BatchItem& item, const TensorView& tensor,
                          Record* record) noexcept;
  StatusCode TakeTicket(const RecordLayout& layout, const kernels::DeviceItem& item, const TensorView& tensor,
                        Record* record) noexcept;
  StatusCode EnqueueAgreementOnDevice(const RecordLayout& layout, const TensorView& gradient,
                                      const TensorView& momentum, Record* record) noexcept;
  StatusCode Refuse(const TensorView& tensor, StatusCode code) noexcept;
  StatusCode Refuse(const kernels::DeviceItem& item) noexcept;

  const ParallelFor parallel_for_;
  device::Devices devices_;
  device::GraphClock graphs_{&devices_};
  std::shared_ptr<LateResults> late_results_;
};

}  // namespace stepwatch::stats
