#include "controller/reload/board_reader.h"

#include <string>
#include <utility>

#include "src/base/ignore_exceptions.h"

namespace stepwatch::reload {

void BoardReader::Read() {
  for (;;) {
    while (next_entry_ < entries_.size()) {
      std::visit([this](const auto& each) { OnEntry(each); }, entries_[next_entry_]);
      ++next_entry_;
    }
    entries_.clear();
    next_entry_ = 0;
    entries_ = board_->Take();
    if (entries_.empty()) return;
  }
}

template <class Change>
void BoardReader::Note(PlanId plan_id, const Change& change) noexcept {
  base::IgnoreExceptions([&] { journal_->Update(plan_id, change); });
}

void BoardReader::OnEntry(const drain::PlanBegan& entry) {
  feed_(Applied{entry.plan_id});
  Note(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "collecting";
    plan.first_step = entry.first_step;
  });
  history_->Applied(entry.plan_id, entry.first_step);
  Event event;
  event.kind = EventKind::kApplied;
  event.plan_id = entry.plan_id;
  event.step = entry.first_step;
  base::IgnoreExceptions([&] { emit_(std::move(event)); });
}

void BoardReader::OnEntry(const drain::PlanFinished& entry) {
  feed_(Finished{entry.plan_id, entry.reason});
  history_->Finished(entry.plan_id, entry.last_step);
  Note(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "finished";
    plan.last_step = entry.last_step;
    plan.collected = entry.collected;
    plan.end_reason = step::EndReasonText(entry.reason);
  });
  base::IgnoreExceptions([&] {
    Event event;
    event.kind = EventKind::kFinished;
    event.plan_id = entry.plan_id;
    event.step = entry.last_step;
    event.collected = entry.collected;
    event.message = step::EndReasonText(entry.reason);
    emit_(std::move(event));
  });
}

// The account goes to history and manifest, in this order, before the file shows that the window is over: a reader that
// sees one finds the other.
void BoardReader::OnEntry(const drain::PlanDrained& entry) {
  history_->Ended(entry.plan_id, entry.reason, entry.collected, entry.ledger);
  Note(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "drained";
    plan.ledger = entry.ledger;
  });
  journal_->AfterSaved([this, entry] {
    feed_(Drained{entry.plan_id, entry.reason});
    Event event;
    event.kind = EventKind::kDrained;
    event.plan_id = entry.plan_id;
    event.collected = entry.collected;
    event.ledger = entry.ledger;
    event.busy_seconds = entry.busy_seconds;
    base::IgnoreExceptions([&] { emit_(std::move(event)); });
  });
}

void BoardReader::OnEntry(const drain::SinkFailed& entry) {
  Emit(EventKind::kDegraded, entry.status.message() + "; rows wait in memory, and writing is retried");
}

void BoardReader::OnEntry(const drain::SinkRecovered&) {
  Emit(EventKind::kRecovered, "rows are written again");
}

void BoardReader::OnEntry(const drain::AlarmsRaised& entry) {
  Event event;
  event.kind = EventKind::kAlarm;
  event.plan_id = entry.plan_id;
  event.step = entry.step;
  for (const std::string& sentence : entry.sentences) {
    base::IgnoreExceptions([&] {
      event.message = sentence;
      emit_(event);
    });
  }
  if (entry.further == 0) return;
  event.message = std::to_string(entry.further) + " further alarms at step " + std::to_string(entry.step) +
                  ", not reported one by one";
  emit_(std::move(event));
}

void BoardReader::OnEntry(const drain::AnomalyFileFailed& entry) {
  Emit(EventKind::kDegraded, entry.status.message() + "; alarms wait in memory, and writing is retried");
}

void BoardReader::OnEntry(const drain::AnomalyFileRecovered&) {
  Emit(EventKind::kRecovered, "anomaly.json is written again");
}

void BoardReader::OnEntry(const drain::PlanPaused& entry) {
  Event event;
  event.kind = entry.paused ? EventKind::kPaused : EventKind::kResumed;
  event.plan_id = entry.plan_id;
  event.step = entry.step;
  const std::string from = "from step " + std::to_string(entry.step) + " on the plan ";
  event.message = from + (entry.paused ? "is paused; it keeps its window and its count" : "collects again");
  base::IgnoreExceptions([&] { emit_(std::move(event)); });
}

void BoardReader::OnEntry(const drain::SegmentBegun& entry) {
  on_segment_(entry);
}

void BoardReader::Emit(EventKind kind, std::string message) {
  Event event;
  event.kind = kind;
  event.message = std::move(message);
  emit_(std::move(event));
}

}  // namespace stepwatch::reload
