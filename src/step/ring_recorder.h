// Records observations of hooks into the ring of the plan in force.
//
// No call allocates, and only ObserveHeatmaps locks, once a step. The semaphore that wakes the drain is posted whenever
// many results of a device are pending.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/stats/engine.h"
#include "src/step/pulse_writer.h"
#include "src/step/running_step.h"
#include "src/step/wake_up.h"
#include "stepwatch/recorder.h"

namespace stepwatch::step {

class RingRecorder final : public Recorder {
 public:
  // All four must outlive the recorder.
  RingRecorder(RunningStep* running, stats::Engine* engine, WakeUp* drain_wake_up, PulseWriter* pulse);

  void ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept override;
  void ObserveMissing(const Observation& at) noexcept override;
  void ObserveValues(const Observation& at, const double* values, size_t count) noexcept override;
  void ObserveHeatmaps(std::vector<HeatmapColumn> columns) noexcept override;
  void ObserveAgreement(const Observation& at, const TensorView& gradient,
                        const TensorView& momentum) noexcept override;
  bool Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept override;
  void Enqueue(const Record& record) noexcept override;
  void Discard(const Record& record) noexcept override { engine_->Discard(record); }
  void SetLateResults(std::shared_ptr<LateResults> results) noexcept override;
  ZerosRule zeros_rule() const noexcept override;
  bool Measures(Device device) noexcept override { return engine_->Measures(device); }
  bool MeasureLate(const Observation& at, const TensorView& tensor, const LateTicket& ticket,
                   Record* record) noexcept override;
  void AddTime(std::chrono::nanoseconds spent) noexcept override;

 private:
  void MarkModule(uint32_t module, bool entered, int32_t micro_batch) noexcept override {
    pulse_->MarkModule(module, entered, micro_batch);
  }
  // The pipeline if the step collects the site, otherwise null.
  Pipeline* PipelineFor(SiteId site) const noexcept;
  void FillKey(const Pipeline& pipeline, const Observation& at, Record* record) noexcept;
  bool MeasureFor(Pipeline* pipeline, const Observation& at, const TensorView& tensor, Record* record) noexcept;
  void Push(Pipeline* pipeline, const Record& record) noexcept;
  void PushIfMeasured(Pipeline* pipeline, StatusCode code, const Record& record) noexcept;
  void MeasureBatch(Pipeline* pipeline, const Observation* at, const TensorView* tensors, size_t count) noexcept;
  void ObserveWithRoom(Pipeline* pipeline, const Observation* at, const TensorView* tensors, size_t count) noexcept;
  void ObserveDue(Pipeline* pipeline, const Observation* at, const TensorView* tensors, size_t count) noexcept;
  void WakeForResults() noexcept;

  RunningStep* const running_;
  stats::Engine* const engine_;
  WakeUp* const drain_wake_up_;
  PulseWriter* const pulse_;
  const uint64_t wake_after_results_;
  std::atomic<uint64_t> results_requested_{0};
};

}  // namespace stepwatch::step
