// Closes the files with the rows recorded so far, so that later rows go to new ones: the next segment. Loop thread
// only.
#pragma once

#include <cstdint>

#include "controller/journal/run_journal.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/plan_controller.h"
#include "controller/status/requests.h"
#include "src/drain/status_board.h"
#include "src/step/data_plane.h"

namespace stepwatch::reload {

class Rotation {
 public:
  // The pointers must outlive it.
  Rotation(step::DataPlane* data_plane, PlanController* controller, journal::RunJournal* journal, EditReporter* reports)
      : data_plane_(data_plane), controller_(controller), journal_(journal), reports_(reports) {}

  // Closes the files at the next boundary. Complete when segment().number is that of the result.
  status::RotateResult Rotate();
  // The drain has begun it.
  void OnSegment(const drain::SegmentBegun& begun);
  // If no window is left, no boundary begins the segment, and the files of the last window are closed.
  void EndIfOver() noexcept;
  const status::Segment& segment() const { return segment_; }

 private:
  step::DataPlane* const data_plane_;
  PlanController* const controller_;
  journal::RunJournal* const journal_;
  EditReporter* const reports_;
  int64_t requested_ = 1;  // the segment
  status::Segment segment_;
};

}  // namespace stepwatch::reload
