// What the drain has posted: kept in the manifest, told as events, and fed to the state machine.
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "controller/reload/reloader.h"

namespace stepwatch::reload {
namespace {

constexpr std::chrono::milliseconds kAfterFault{100};

}  // namespace

void Reloader::OnBoard() {
  try {
    TakeEntries();
  } catch (...) {
    board_timer_.expires_after(kAfterFault);
    board_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) OnBoard();
    });
    throw;
  }
  TidySlot();
}

// An entry that the machine finds no memory for stays, with all after it.
void Reloader::TakeEntries() {
  for (;;) {
    while (next_entry_ < entries_.size()) {
      std::visit([this](const auto& each) { OnEntry(each); }, entries_[next_entry_]);
      ++next_entry_;
    }
    entries_.clear();
    next_entry_ = 0;
    entries_ = parts_.board->Take();
    if (entries_.empty()) return;
  }
}

void Reloader::OnEntry(const drain::PlanBegan& entry) {
  Feed(Applied{entry.plan_id});
  Quietly([&] {
    journal_.Update(entry.plan_id, [&](output::ManifestPlan& plan) {
      plan.state = "collecting";
      plan.first_step = entry.first_step;
    });
  });
  Event event;
  event.kind = EventKind::kApplied;
  event.plan_id = entry.plan_id;
  event.step = entry.first_step;
  Quietly([&] { Tell(std::move(event)); });
}

void Reloader::OnEntry(const drain::PlanFinished& entry) {
  Feed(Finished{entry.plan_id, entry.reason});
  Quietly([&] {
    journal_.Update(entry.plan_id, [&](output::ManifestPlan& plan) {
      plan.state = "finished";
      plan.last_step = entry.last_step;
      plan.collected = entry.collected;
      plan.end_reason = step::EndReasonText(entry.reason);
    });
  });
  Quietly([&] {
    Event event;
    event.kind = EventKind::kFinished;
    event.plan_id = entry.plan_id;
    event.step = entry.last_step;
    event.collected = entry.collected;
    event.message = step::EndReasonText(entry.reason);
    Tell(std::move(event));
  });
}

// The account is in the manifest before the file says that the window is over: whoever sees the one finds the other.
void Reloader::OnEntry(const drain::PlanDrained& entry) {
  journal_.Update(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "drained";
    plan.ledger = entry.ledger;
  });
  journal_.AfterSaved([this, entry] {
    Feed(Drained{entry.plan_id, entry.reason});
    Event event;
    event.kind = EventKind::kDrained;
    event.plan_id = entry.plan_id;
    event.collected = entry.collected;
    event.ledger = entry.ledger;
    event.busy_seconds = entry.busy_seconds;
    Quietly([&] { Tell(std::move(event)); });
  });
}

void Reloader::OnEntry(const drain::SinkFailed& entry) {
  Tell(EventKind::kDegraded, entry.status.message() + "; rows wait in memory and are tried again");
}

void Reloader::OnEntry(const drain::SinkRecovered&) {
  Tell(EventKind::kRecovered, "rows are written again");
}

void Reloader::OnEntry(const drain::AlarmsRaised& entry) {
  Event event;
  event.kind = EventKind::kAlarm;
  event.plan_id = entry.plan_id;
  event.step = entry.step;
  for (const std::string& sentence : entry.sentences) {
    Quietly([&] {
      event.message = sentence;
      Tell(event);
    });
  }
  if (entry.further == 0) return;
  event.message =
      std::to_string(entry.further) + " further alarms at step " + std::to_string(entry.step) + ", not told one by one";
  Tell(std::move(event));
}

void Reloader::OnEntry(const drain::AnomalyFileFailed& entry) {
  Tell(EventKind::kDegraded, entry.status.message() + "; alarms wait in memory and are tried again");
}

void Reloader::OnEntry(const drain::AnomalyFileRecovered&) {
  Tell(EventKind::kRecovered, "anomaly.json is written again");
}

}  // namespace stepwatch::reload
