#include "operations/daemon/incident_ledger.h"

#include <optional>

#include "operations/daemon/log.h"
#include "operations/trace/write_line.h"

namespace stepwatch::operations {

void IncidentLedger::StoreAgain(double t) {
  Batch& next = store_.next();
  for (const StoredChange& change : registry_.All()) next.changes.push_back(change);
  for (const Silence& silence : registry_.Silences(t)) next.silences.push_back(silence);
}

void IncidentLedger::Store(StoredChange change) {
  store_.next().changes.push_back(std::move(change));
  callbacks_.on_change(store_.next().changes.back());
}

void IncidentLedger::Publish(const std::vector<Incident>& changes, Then then) {
  if (changes.empty()) {
    if (then) then();
    return;
  }
  for (const Incident& each : changes) {
    if (each.state == IncidentState::kOpened) ++opened_[{each.kind, each.severity}];
    Store(registry_.Change(each));
  }
  store_.Flush([this, changes, then = std::move(then)] {
    for (const Incident& each : changes)
      log_.Write(each.severity == Severity::kCritical ? LogLevel::kError : LogLevel::kWarning, IncidentSentence(each));
    callbacks_.on_safe();
    if (then) then();
  });
}

void IncidentLedger::ResolveForgotten(const std::function<bool(const std::string& run)>& is_known, double t) {
  std::vector<Incident> changes;
  for (const StoredIncident& each : registry_.Open()) {
    if (is_known(each.incident.run)) continue;
    Incident forgotten = each.incident;
    forgotten.state = IncidentState::kResolved;
    forgotten.t = t;
    forgotten.evidence.SetText("resolved_by", "the run is forgotten");
    changes.push_back(std::move(forgotten));
  }
  Publish(changes, {});
}

bool IncidentLedger::Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement, Then then) {
  std::optional<StoredChange> change = registry_.Acknowledge(incident, acknowledgement);
  if (!change) return false;
  Store(std::move(*change));
  store_.Flush([this, then = std::move(then)] {
    callbacks_.on_safe();
    then();
  });
  return true;
}

bool IncidentLedger::AddSilence(const Silence& silence, Then then) {
  if (!registry_.Add(silence)) return false;
  store_.next().silences.push_back(silence);
  store_.Flush(std::move(then));
  return true;
}

bool IncidentLedger::RemoveSilence(const std::string& id, Then then) {
  if (!registry_.RemoveSilence(id)) return false;
  store_.next().silences_removed.push_back(id);
  store_.Flush(std::move(then));
  return true;
}

}  // namespace stepwatch::operations
