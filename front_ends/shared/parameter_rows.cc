#include "front_ends/shared/parameter_rows.h"

namespace stepwatch::front_end {

void UnreducedRows::Want(Recorder* recorder, SiteId site, bool each_micro_batch) noexcept {
  Discard(recorder);
  site_ = site;
  each_ = each_micro_batch;
  is_updating_ = false;
}

// A pass that an update has counted already may be reported again, when its gradient is about to be reduced.
uint32_t UnreducedRows::PassSinceUpdate(uint32_t step, uint32_t pass) const noexcept {
  return pass - std::min(UpdatesOf(step).passes, pass - 1);
}

Observation UnreducedRows::ObservationOf(uint32_t step, uint32_t pass, int announced) const noexcept {
  const uint32_t since_update = PassSinceUpdate(step, pass);
  const uint32_t micro_step = (each_ ? since_update : std::min(since_update, static_cast<uint32_t>(announced))) - 1;
  const uint16_t begun = UpdatesOf(step).begun;
  const auto ended = static_cast<uint16_t>(begun > 0 && is_updating_ ? begun - 1 : begun);
  return {site_, static_cast<int32_t>(micro_step), kNoElement, ended};
}

void UnreducedRows::BeginUpdate(uint32_t step, uint16_t update) noexcept {
  updates_ = UpdatesOf(step);
  updates_.begun = static_cast<uint16_t>((update & ~kRepeatedUpdate) + 1);
  is_updating_ = true;
}

void UnreducedRows::EndUpdate(uint32_t step) noexcept {
  is_updating_ = false;
  updates_ = UpdatesOf(step);
  updates_.passes = passes_.Count(step);
}

void UnreducedRows::AbandonUpdate(uint32_t step) noexcept {
  if (is_updating_ && UpdatesOf(step).begun > 0) --updates_.begun;
  EndUpdate(step);
}

bool UnreducedRows::EnqueueKept(Recorder& recorder, uint32_t step) noexcept {
  if (kept_ && kept_step_ != step) Discard(&recorder);
  if (!kept_) return false;
  recorder.Enqueue(*kept_);
  kept_.reset();
  return true;
}

bool UnreducedRows::EndStep(Recorder& recorder, uint32_t step) noexcept {
  if (UpdatesOf(step).begun == 0) return EnqueueKept(recorder, step);
  Discard(&recorder);
  return false;
}

void UnreducedRows::Discard(Recorder* recorder) noexcept {
  if (kept_ && recorder != nullptr) recorder->Discard(*kept_);
  kept_.reset();
}

void ParameterRows::BeginUpdate(uint32_t step) noexcept {
  if (step_ != step) {
    step_ = step;
    begun_ = 0;
    has_failed_ = false;
  }
  current_ = begun_ | (has_failed_ ? kRepeatedUpdate : uint16_t{0});
  has_failed_ = false;
  if (begun_ < kUpdatesMax) ++begun_;
}

bool ParameterRows::BeginGradient(Recorder& recorder, uint32_t step) noexcept {
  if (!unreduced.wanted()) return false;
  const bool added = unreduced.EnqueueKept(recorder, step);
  unreduced.BeginUpdate(step, UpdateOf(step));
  return added;
}

void ParameterRows::AbandonUpdate(uint32_t step) noexcept {
  unreduced.AbandonUpdate(step);
  if (step_ != step || begun_ == 0) return;
  --begun_;
  has_failed_ = true;
}

}  // namespace stepwatch::front_end
