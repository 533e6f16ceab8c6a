#include "controller/reload/rotation.h"

#include <string>
#include <utility>

#include "src/base/file.h"

namespace stepwatch::reload {

status::RotateResult Rotation::Rotate() {
  using Outcome = status::RotateResult::Outcome;
  controller_->FeedBegun();
  if (requested_ != segment_.number) return {Outcome::kUnderWay, {requested_}};
  if (data_plane_->plans.plan_id() == 0 || !controller_->state().window) return {Outcome::kNotCollecting};
  data_plane_->plans.RequestCut(++requested_);
  return {Outcome::kAsked, {requested_}};
}

// Manifest first: a client that reads the event finds the segment there.
void Rotation::OnSegment(const drain::SegmentBegun& begun) {
  output::ManifestSegment segment;
  segment.segment = begun.segment - 1;
  segment.last_step = begun.last_step;
  for (const std::string& file : begun.files) segment.files.push_back(base::BaseName(file));
  journal_->AddSegment(std::move(segment));
  journal_->AfterSaved([this, begun] {
    segment_ = {begun.segment, begun.last_step, begun.files};
    Event event;
    event.kind = EventKind::kRotated;
    event.plan_id = begun.plan_id;
    event.step = begun.last_step;
    const size_t files = begun.files.size();
    event.message = std::to_string(files) + (files == 1 ? " file" : " files") + " with rows up to step " +
                    std::to_string(begun.last_step) + (files == 1 ? " is" : " are") + " closed; segment " +
                    std::to_string(begun.segment) + " begins";
    reports_->Emit(std::move(event));
  });
}

void Rotation::EndIfOver() noexcept {
  const MachineState& state = controller_->state();
  const bool is_over = !state.window && state.published.empty() && state.draining.empty();
  if (requested_ == segment_.number || !is_over) return;
  (void)data_plane_->plans.WithdrawCut();
  segment_ = {requested_, -1, {}};
}

}  // namespace stepwatch::reload
