// Pauses the window in force, and resumes it. In a job of ranks: on all of them, from the step that they agree on. Loop
// thread only.
#pragma once

#include <cstdint>

#include "controller/reload/plan_controller.h"
#include "controller/status/requests.h"
#include "src/step/data_plane.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::reload {

class PauseControl {
 public:
  // Both must outlive it.
  PauseControl(step::DataPlane* data_plane, PlanController* controller)
      : data_plane_(data_plane), controller_(controller) {}

  // From the next boundary on the window in force collects nothing and keeps its count, or collects again.
  // kAsked: it will. `is_of_all_ranks`: it holds for all ranks of a job, from the step that they agree on.
  status::PauseResult Pause(bool pause);
  // The ranks have agreed on it.
  void OnAgreed(bool pause, int64_t at_step);

 private:
  status::PauseResult::Outcome PauseRanks(bool pause);

  step::DataPlane* const data_plane_;
  PlanController* const controller_;
  struct {
    bool pause = false;
    int64_t at_step = -1;
  } agreed_;  // the newest
};

}  // namespace stepwatch::reload
