// Runtime resources of one plan: its ring, its batch buffers and its counters, prepared off the step thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "src/plan/plan.h"
#include "src/stats/engine.h"
#include "src/step/heatmap_queue.h"
#include "src/step/record_ring.h"
#include "src/step/step_cost.h"
#include "stepwatch/status.h"

namespace stepwatch::step {

// Shared by the step thread (pushes, counts) and the drain (pops, writes). Freed when the drain has finished with it
// and the step thread has passed another boundary since it retired the plan.
struct Pipeline {
  Pipeline(std::shared_ptr<const plan::Plan> its_plan, size_t ring_records)
      : plan(std::move(its_plan)),
        requests_after_pause(RequestsAfterPause(*plan)),
        measure{plan->eps, plan->eps_mode},
        graph_reader(plan->layout, measure),
        ring(ring_records),
        kept_for_parameters(PlacesForParameters(*plan, ring_records)),
        batch_room(BatchCapacity(*plan)),
        due_room(plan->layout.groups.empty() ? 0 : BatchCapacity(*plan)) {}

  const std::shared_ptr<const plan::Plan> plan;
  const FrontEndRequests requests_after_pause;  // the plan's requests without the one-time ones
  const kernels::MeasureOptions measure;
  const device::GraphReader graph_reader;
  RecordRing ring;
  // Ring places that records of modules leave free: a program may call its modules without limit in a step, and the
  // gradients that follow are more valuable.
  const size_t kept_for_parameters;
  HeatmapQueue heatmaps;

  // Buffer for the tensors of a batch that are due in the step, if it does not collect all groups.
  struct DueRoom {
    explicit DueRoom(size_t count) : at(count), tensors(count) {}
    std::vector<Observation> at;
    std::vector<TensorView> tensors;
  };

  // Used by one thread at a time.
  stats::BatchRoom batch_room;
  DueRoom due_room;
  std::atomic_flag batch_room_taken;

  std::atomic<uint64_t> produced{0};
  std::atomic<uint64_t> dropped_ring_full{0};
  std::atomic<uint64_t> dropped_unsupported{0};
  std::atomic<uint64_t> dropped_late{0};  // measured under another plan
  CostCounters cost;                      // of measuring for this plan

  // Counts an observation that produced no record.
  void CountUnmeasured(StatusCode code) noexcept;

 private:
  static size_t BatchCapacity(const plan::Plan& plan);
  static size_t PlacesForParameters(const plan::Plan& plan, size_t ring_records);
  static FrontEndRequests RequestsAfterPause(const plan::Plan& plan);
};

// Memory of a ring with places for exactly two steps of the plan's records.
uint64_t RingBytesNeeded(const plan::Plan& plan, int micro_batches);
// Memory of the ring made by MakePipeline.
uint64_t RingBytes(const plan::Plan& plan, int micro_batches, size_t ring_bytes_max);

// Makes a pipeline with places for two steps of the plan's records, within the memory limit.
std::shared_ptr<Pipeline> MakePipeline(std::shared_ptr<const plan::Plan> plan, int micro_batches,
                                       size_t ring_bytes_max);

}  // namespace stepwatch::step
