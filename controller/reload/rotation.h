// Closes the files with the rows recorded so far, so that later rows go to new ones: the next segment. Loop thread
// only.
#pragma once

#include <cstdint>

#include "controller/journal/run_journal.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/plan_controller.h"
#include "controller/reload/reload_view.h"
#include "src/drain/status_board.h"
#include "src/step/data_plane.h"

namespace stepwatch::reload {

struct RotationVerdict {
  enum class Outcome : uint8_t {
    kAsked,          // the next boundary begins the segment
    kUnderWay,       // another one is about to begin
    kNotCollecting,  // no window is in force: the files of the last one are closed, or about to be
  };
  Outcome outcome = Outcome::kAsked;
  int64_t segment = 0;  // the segment that is to begin
};

class Rotation {
 public:
  // The pointers must outlive it.
  Rotation(step::DataPlane* data_plane, PlanController* controller, journal::RunJournal* journal, EditReporter* reports)
      : data_plane_(data_plane), controller_(controller), journal_(journal), reports_(reports) {}

  // Closes the files at the next boundary. Complete when segment().segment is that of the result.
  RotationVerdict Rotate();
  // The drain has begun it.
  void OnSegment(const drain::SegmentBegun& begun);
  // If no window is left, no boundary begins the segment, and the files of the last window are closed.
  void EndIfOver() noexcept;
  const SegmentView& segment() const { return segment_; }

 private:
  step::DataPlane* const data_plane_;
  PlanController* const controller_;
  journal::RunJournal* const journal_;
  EditReporter* const reports_;
  int64_t requested_ = 1;  // the segment
  SegmentView segment_;
};

}  // namespace stepwatch::reload
