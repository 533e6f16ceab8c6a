// What the drain has posted: kept in the manifest, told as events, and fed to the state machine.
#include <string>
#include <utility>
#include <variant>

#include "controller/reload/reloader.h"

namespace stepwatch::reload {

void Reloader::OnBoard() {
  for (const drain::BoardEntry& entry : parts_.board->Take())
    std::visit([this](const auto& each) { OnEntry(each); }, entry);
  TidySlot();
}

void Reloader::OnEntry(const drain::PlanBegan& entry) {
  record_.Update(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "collecting";
    plan.first_step = entry.first_step;
  });
  SaveManifest();
  Feed(Applied{entry.plan_id});
  Event event;
  event.kind = EventKind::kApplied;
  event.plan_id = entry.plan_id;
  event.step = entry.first_step;
  Tell(std::move(event));
}

void Reloader::OnEntry(const drain::PlanFinished& entry) {
  record_.Update(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "finished";
    plan.last_step = entry.last_step;
    plan.collected = entry.collected;
    plan.end_reason = step::EndReasonText(entry.reason);
  });
  Feed(Finished{entry.plan_id, entry.reason});
  Event event;
  event.kind = EventKind::kFinished;
  event.plan_id = entry.plan_id;
  event.step = entry.last_step;
  event.collected = entry.collected;
  event.message = step::EndReasonText(entry.reason);
  Tell(std::move(event));
}

void Reloader::OnEntry(const drain::PlanDrained& entry) {
  record_.Update(entry.plan_id, [&](output::ManifestPlan& plan) {
    plan.state = "drained";
    plan.ledger = entry.ledger;
  });
  SaveManifest();
  Event event;
  event.kind = EventKind::kDrained;
  event.plan_id = entry.plan_id;
  event.collected = entry.collected;
  event.ledger = entry.ledger;
  event.busy_seconds = entry.busy_seconds;
  Tell(std::move(event));
  Feed(Drained{entry.plan_id, entry.reason});
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
    event.message = sentence;
    Tell(event);
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
