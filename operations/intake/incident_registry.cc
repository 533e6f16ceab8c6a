#include "operations/intake/incident_registry.h"

#include <algorithm>
#include <utility>

namespace stepwatch::operations {
namespace {

bool IsOpen(const StoredIncident& each) {
  return each.incident.state != IncidentState::kResolved;
}

bool IsInForce(const Silence& silence, double t) {
  return t < silence.until_t;
}

void NewestFirst(std::vector<StoredIncident>* list) {
  std::sort(list->begin(), list->end(),
            [](const StoredIncident& a, const StoredIncident& b) { return a.number > b.number; });
}

}  // namespace

bool Matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return true;
  // Position at which to continue after the last *.
  size_t star = std::string_view::npos, after_star = 0, p = 0, t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

void IncidentRegistry::Restore(const Restored& restored) {
  for (const StoredIncident& each : restored.incidents) incidents_.insert_or_assign(each.incident.id, each);
  events_.assign(restored.changes.begin(), restored.changes.end());
  silences_ = restored.silences;
  number_last_ = restored.number_last;
  // Numbers without a change were those of lines.
  const bool has_all = restored.changes.size() < static_cast<size_t>(Restored::kChangesMax);
  number_forgotten_ = has_all ? 0 : events_.front().number - 1;
}

StoredChange IncidentRegistry::Note(std::string what, const StoredIncident& incident) {
  StoredChange change{incident.number, std::move(what), incident.incident, incident.acknowledgement};
  events_.push_back(change);
  if (events_.size() > kEventsMax) {
    number_forgotten_ = events_.front().number;
    events_.pop_front();
  }
  return change;
}

StoredChange IncidentRegistry::Change(const Incident& incident) {
  StoredIncident& kept = incidents_[incident.id];
  kept.incident = incident;
  kept.number = ++number_last_;
  StoredChange change = Note(std::string(NameOf(incident.state)), kept);
  ForgetSome();
  return change;
}

std::optional<StoredChange> IncidentRegistry::Acknowledge(std::string_view id, const Acknowledgement& acknowledgement) {
  const auto found = incidents_.find(id);
  if (found == incidents_.end()) return std::nullopt;
  found->second.acknowledgement = acknowledgement;
  found->second.number = ++number_last_;
  return Note("acknowledged", found->second);
}

void IncidentRegistry::ForgetSome() {
  // Removes more than necessary, so that this is not done for every change.
  constexpr size_t kSlack = 200;
  if (incidents_.size() <= kResolvedMax + kSlack) return;
  std::vector<StoredIncident> resolved;
  for (const auto& [id, each] : incidents_)
    if (!IsOpen(each)) resolved.push_back(each);
  NewestFirst(&resolved);
  for (size_t i = kResolvedMax; i < resolved.size(); ++i) incidents_.erase(resolved[i].incident.id);
}

const StoredIncident* IncidentRegistry::Find(std::string_view id) const {
  const auto found = incidents_.find(id);
  return found == incidents_.end() ? nullptr : &found->second;
}

std::vector<StoredIncident> IncidentRegistry::List(const Query& query) const {
  std::vector<StoredIncident> list;
  for (const auto& [id, each] : incidents_)
    if ((!query.open_only || IsOpen(each)) && (query.run.empty() || query.run == each.incident.run))
      list.push_back(each);
  NewestFirst(&list);
  if (list.size() > query.limit) list.resize(query.limit);
  return list;
}

std::vector<StoredIncident> IncidentRegistry::Open() const {
  return List({true, "", incidents_.size()});
}

std::vector<StoredChange> IncidentRegistry::All() const {
  std::map<int64_t, StoredChange> all;
  for (const auto& [id, each] : incidents_)
    all.emplace(each.number, StoredChange{each.number, std::string(NameOf(each.incident.state)), each.incident,
                                          each.acknowledgement});
  for (const StoredChange& change : events_) all.insert_or_assign(change.number, change);
  std::vector<StoredChange> ordered;
  for (auto& [number, change] : all) ordered.push_back(std::move(change));
  return ordered;
}

IncidentRegistry::EventPage IncidentRegistry::After(int64_t number, size_t count) const {
  EventPage page;
  page.misses_some = number < number_forgotten_;
  auto next = std::upper_bound(events_.begin(), events_.end(), number,
                               [](int64_t wanted, const StoredChange& each) { return wanted < each.number; });
  for (; next != events_.end() && page.changes.size() < count; ++next) page.changes.push_back(*next);
  return page;
}

bool IncidentRegistry::Add(const Silence& silence) {
  if (silences_.size() >= kSilencesMax) return false;
  silences_.push_back(silence);
  return true;
}

bool IncidentRegistry::RemoveSilence(std::string_view id) {
  return std::erase_if(silences_, [&](const Silence& each) { return each.id == id; }) > 0;
}

std::vector<Silence> IncidentRegistry::Silences(double t) {
  std::erase_if(silences_, [&](const Silence& each) { return !IsInForce(each, t); });
  return silences_;
}

const Silence* IncidentRegistry::SilenceOf(const Incident& incident, double t) const {
  for (const Silence& each : silences_)
    if (IsInForce(each, t) && Matches(each.run, incident.run) && Matches(each.kind, NameOf(incident.kind)))
      return &each;
  return nullptr;
}

}  // namespace stepwatch::operations
