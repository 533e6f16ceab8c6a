#include "operations/incidents/incident_manager.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepwatch::operations {
namespace {

constexpr size_t kOpenMax = 256;
constexpr size_t kSymptomsMax = 16;
constexpr double kUpdateSeconds = 2;  // between two updates of one incident
// Steps, and seconds, after which training counts as continued.
constexpr int64_t kStepsAgain = 2;
constexpr int64_t kStepsAfterException = 3;
constexpr double kSecondsAfterException = 5;
constexpr double kSecondsAfterMemory = 15;
constexpr double kSecondsAfterKill = 60;  // not caught by the program
// By which the remaining ranks train on without the lost ones.
constexpr int64_t kStepsWithout = 10;
constexpr double kSecondsWithout = 30;

// FNV-1a.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return hash;
}

std::string SymptomText(const Finding& finding) {
  constexpr size_t kRanksNamed = 8;
  std::string text(NameOf(finding.kind));
  const auto end = finding.ranks.begin() + static_cast<std::ptrdiff_t>(std::min(finding.ranks.size(), kRanksNamed));
  if (!finding.ranks.empty()) text += fmt::format(" of rank {}", fmt::join(finding.ranks.begin(), end, ", "));
  if (finding.since_step) text += fmt::format(" after step {}", *finding.since_step);
  return text;
}

}  // namespace

IncidentManager::Open* IncidentManager::Find(IncidentKind kind, const std::string& key) {
  for (Open& open : open_)
    if (open.incident.kind == kind && (open.key == key || open.is_adopted)) return &open;
  return nullptr;
}

// Lines from before an adopted incident are no evidence of its later course.
bool IncidentManager::IsYetToCome(const Open& open, const Moment& moment) const {
  return open.is_adopted && moment.clock.WallAt(moment.now) <= open.incident.opened_t;
}

void IncidentManager::Take(std::vector<Findings::Entry> entries, const Moment& moment, std::vector<Incident>* changes) {
  for (Findings::Entry& entry : entries) {
    if (auto* finding = std::get_if<Finding>(&entry))
      Raise(std::move(*finding), moment, changes);
    else
      Recover(std::get<Recovery>(entry), moment, changes);
  }
}

void IncidentManager::Raise(Finding finding, const Moment& moment, std::vector<Incident>* changes) {
  if (Join(finding, moment, changes)) return;
  for (Waiting& waiting : waiting_) {
    if (waiting.finding.kind != finding.kind || waiting.finding.key != finding.key) continue;
    const bool is_better = waiting.finding.is_symptom && !finding.is_symptom;
    waiting.finding = std::move(finding);
    if (is_better) waiting.due = moment.now;
    return Tick(moment, changes);
  }
  if (Absorb(finding, moment, changes)) return;
  // A weaker explanation than a waiting one adds to that.
  for (Waiting& waiting : waiting_) {
    if (!Outranks(waiting.finding, finding)) continue;
    waiting.finding.evidence.Set("symptoms", std::vector<std::string>{SymptomText(finding)});
    return;
  }
  if (finding.hold_seconds > 0)
    waiting_.push_back({std::move(finding), moment.now + finding.hold_seconds, moment.now});
  else
    OpenFor(std::move(finding), moment.now, moment, changes);
}

// Adds to the open incident of this finding.
bool IncidentManager::Join(const Finding& finding, const Moment& moment, std::vector<Incident>* changes) {
  Open* open = Find(finding.kind, finding.key);
  if (open == nullptr) return false;
  if (open->is_adopted) open->opened_at = moment.now;
  open->raised_at = moment.now;
  open->is_over = false;
  open->key = finding.key;
  open->is_adopted = false;
  const bool names_ranks = !finding.ranks.empty() && finding.ranks != open->incident.ranks;
  const bool is_worse = finding.severity() > open->incident.severity;
  if (names_ranks) open->incident.ranks = finding.ranks;
  if (is_worse) open->incident.severity = finding.severity();
  open->incident.evidence.Merge(finding.evidence);
  open->is_changed = true;
  if (names_ranks || is_worse) Emit(open, IncidentState::kUpdated, moment, changes);
  return true;
}

CauseView IncidentManager::ViewOf(const Open& open, const Finding& finding, const Moment& moment) const {
  CauseView cause;
  cause.incident = &open.incident;
  cause.seconds_open = moment.now - open.opened_at;
  cause.has_trained_since = open.steps_since > kStepsAgain;
  cause.has_trained_on = TrainsOnWithout(open, moment);
  cause.seconds_quiet = moment.now - open.active_at;
  const std::optional<int64_t> began = finding.since_step ? finding.since_step : moment.run.step();
  if (began && open.active_step) cause.steps_quiet = *began - *open.active_step;
  cause.beat_seconds = moment.run.pace().beat_seconds;
  return cause;
}

// A repetition of an existing symptom is not reported.
bool IncidentManager::HasSymptom(const Finding& finding) const {
  return std::any_of(open_.begin(), open_.end(), [&](const Open& open) {
    return std::any_of(open.symptoms.begin(), open.symptoms.end(), [&](const Symptom& symptom) {
      return symptom.kind == finding.kind && symptom.key == finding.key;
    });
  });
}

bool IncidentManager::Absorb(const Finding& finding, const Moment& moment, std::vector<Incident>* changes) {
  if (HasSymptom(finding)) return true;
  for (Open& open : open_) {
    if (!Explains(ViewOf(open, finding, moment), finding)) continue;
    AddSymptom(finding, &open);
    open.active_at = moment.now;
    open.active_step = moment.run.step();
    if (finding.severity() > open.incident.severity) {
      open.incident.severity = finding.severity();
      Emit(&open, IncidentState::kUpdated, moment, changes);
    }
    return true;
  }
  return false;
}

void IncidentManager::AddSymptom(const Finding& finding, Open* open) {
  // Symptoms of other families end with their cause, or are raised by their own detectors.
  if (FamilyOf(finding.kind) == FamilyOf(open->incident.kind) && FamilyOf(finding.kind) != Family::kLife)
    open->symptoms.push_back({finding.kind, finding.key});
  std::vector<std::string> symptoms;
  if (const EvidenceValue* had = open->incident.evidence.Find("symptoms"))
    if (const auto* list = std::get_if<std::vector<std::string>>(had)) symptoms = *list;
  const std::string text = SymptomText(finding);
  const std::string kind(NameOf(finding.kind));
  for (std::string& symptom : symptoms)
    if (symptom.compare(0, kind.size(), kind) == 0) return;
  if (symptoms.size() >= kSymptomsMax) return;
  symptoms.push_back(text);
  open->incident.evidence.Set("symptoms", std::move(symptoms));
  open->is_changed = true;
}

void IncidentManager::OpenFor(Finding finding, double at, const Moment& moment, std::vector<Incident>* changes) {
  if (open_.size() >= kOpenMax) return;
  // Waiting findings that this one explains are its symptoms.
  std::vector<Finding> explained;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const bool is_symptom = Outranks(finding, it->finding);
    if (is_symptom) explained.push_back(std::move(it->finding));
    it = is_symptom ? waiting_.erase(it) : std::next(it);
  }
  Open open;
  open.key = finding.key;
  open.opened_at = open.raised_at = at;
  open.active_at = moment.now;
  open.opened_step = open.active_step = moment.run.step();
  open.restarts = moment.run.restarts();
  Incident& incident = open.incident;
  incident.kind = finding.kind;
  incident.run = run_;
  incident.ranks = std::move(finding.ranks);
  incident.since_step = finding.since_step;
  incident.severity = finding.severity();
  incident.evidence = std::move(finding.evidence);
  incident.opened_t = moment.clock.WallAt(moment.now);
  incident.id = fmt::format(
      "{:012x}", Hash(fmt::format("{}\n{}\n{:.3f}\n{}", run_, NameOf(incident.kind), incident.opened_t, openings_++)) &
                     0xffffffffffffULL);
  for (const Finding& symptom : explained) AddSymptom(symptom, &open);
  Emit(&open, IncidentState::kOpened, moment, changes);
  open_.push_back(std::move(open));
}

void IncidentManager::Emit(Open* open, IncidentState state, const Moment& moment, std::vector<Incident>* changes) {
  open->incident.state = state;
  open->incident.t = moment.clock.WallAt(moment.now);
  open->reported_at = moment.now;
  open->is_changed = false;
  changes->push_back(open->incident);
}

void IncidentManager::Resolve(size_t i, const char* how, const Moment& moment, std::vector<Incident>* changes) {
  open_[i].incident.evidence.SetText("resolved_by", how);
  open_[i].incident.evidence.Set("open_seconds", moment.now - open_[i].opened_at);
  Emit(&open_[i], IncidentState::kResolved, moment, changes);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
}

void IncidentManager::Recover(const Recovery& recovery, const Moment& moment, std::vector<Incident>* changes) {
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [&](const Waiting& waiting) {
                                  return waiting.finding.kind == recovery.kind && waiting.finding.key == recovery.key;
                                }),
                 waiting_.end());
  for (size_t i = open_.size(); i-- > 0;) {
    Open& open = open_[i];
    if (IsYetToCome(open, moment)) continue;
    const bool is_own = open.incident.kind == recovery.kind && (open.key == recovery.key || open.is_adopted);
    const size_t ended = std::erase_if(open.symptoms, [&](const Symptom& symptom) {
      return symptom.kind == recovery.kind && symptom.key == recovery.key;
    });
    if (is_own) open.incident.evidence.Merge(recovery.evidence);
    open.is_over = open.is_over || is_own;
    // Symptoms that outlast the cause keep the incident open.
    if ((is_own || ended > 0) && open.is_over && open.symptoms.empty()) Resolve(i, "recovery", moment, changes);
  }
}

void IncidentManager::Tick(const Moment& moment, std::vector<Incident>* changes) {
  for (size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].due > moment.now) {
      ++i;
      continue;
    }
    Waiting due = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    const auto better = std::find_if(waiting_.begin(), waiting_.end(),
                                     [&](const Waiting& waiting) { return Outranks(waiting.finding, due.finding); });
    if (better != waiting_.end())
      better->finding.evidence.Set("symptoms", std::vector<std::string>{SymptomText(due.finding)});
    else if (!Absorb(due.finding, moment, changes))
      OpenFor(std::move(due.finding), moment.now, moment, changes);
    i = 0;
  }
  for (Open& open : open_)
    if (open.is_changed && moment.now - open.reported_at >= kUpdateSeconds)
      Emit(&open, IncidentState::kUpdated, moment, changes);
}

// True if the living ranks have continued since then, for this many steps.
bool IncidentManager::TrainsOnWithout(const Open& open, const Moment& moment) const {
  if (!open.opened_step || moment.run.restarts() > open.restarts) return false;
  size_t alive = 0;
  for (const auto& [number, rank] : moment.run.ranks()) {
    if (rank.gone) continue;
    ++alive;
    if (!rank.step || *rank.step < *open.opened_step + kStepsWithout) return false;
  }
  return alive > 0;
}

// True after a reported restart; for numbers and pace also after a rank has gone back to an earlier step: detectors
// begin again with it, and do not clear their old findings.
bool IncidentManager::HasBegunAnew(const Open& open, const Moment& moment) const {
  return moment.run.restarts() > open.restarts || (open.rewound_at && FamilyOf(open.incident.kind) != Family::kLife);
}

bool IncidentManager::TrainsAgain(const Open& open, const Moment& moment) const {
  if (HasBegunAnew(open, moment)) return open.steps_since_restart >= kStepsAgain;
  const auto is_gone = [&](int64_t number) {
    const RankState* rank = moment.run.FindRank(number);
    return rank == nullptr || rank->gone;
  };
  const std::vector<int64_t>& ranks = open.incident.ranks;
  const double seconds = moment.now - open.raised_at;
  if (std::any_of(ranks.begin(), ranks.end(), is_gone)) {
    const IncidentKind kind = open.incident.kind;
    const bool may_go_on =
        kind == IncidentKind::kProcessLost || kind == IncidentKind::kException || kind == IncidentKind::kOutOfMemory;
    return may_go_on && seconds >= kSecondsWithout && TrainsOnWithout(open, moment);
  }
  switch (open.incident.kind) {
    case IncidentKind::kProcessLost: {
      const auto& all = moment.run.ranks();
      const bool some_gone = std::any_of(all.begin(), all.end(), [](const auto& rank) { return rank.second.gone; });
      return !some_gone && open.steps_since >= kStepsAfterException && seconds >= kSecondsAfterException;
    }
    case IncidentKind::kException: return open.steps_since >= kStepsAfterException && seconds >= kSecondsAfterException;
    case IncidentKind::kOutOfMemory: {
      const bool is_caught = open.incident.evidence.Find("type") != nullptr;
      return open.steps_since >= kStepsAfterException &&
             seconds >= (is_caught ? kSecondsAfterMemory : kSecondsAfterKill);
    }
    default: return false;
  }
}

void IncidentManager::TakeAdvance(const BeatFacts& beat, const Moment& moment, std::vector<Incident>* changes) {
  for (size_t i = open_.size(); i-- > 0;) {
    Open& open = open_[i];
    if (moment.now <= open.opened_at || IsYetToCome(open, moment)) continue;
    const std::vector<int64_t>& ranks = open.incident.ranks;
    if (beat.rewound) {
      open.rewound_at = moment.now;
      open.steps_since_restart = 0;
      open.symptoms.clear();
    }
    const bool restarted = HasBegunAnew(open, moment);
    const bool counts =
        restarted || ranks.empty() || std::find(ranks.begin(), ranks.end(), beat.rank->rank) != ranks.end();
    // Steps that ended since the beat before may have ended before the incident opened.
    const bool may_be_old = !restarted && !beat.rewound && beat.now - beat.advance_seconds <= open.opened_at;
    if (may_be_old && open.opened_step) open.opened_step = std::max(*open.opened_step, beat.step);
    if (beat.rewound && open.opened_step) open.opened_step = std::min(*open.opened_step, beat.step);
    // A rank that loads a checkpoint reports its step, too.
    const bool trains = beat.rank->phase != RunPhase::kInit || beat.advance_seconds > 0;
    const double began_at = std::max(moment.run.began_at(), open.rewound_at.value_or(0));
    if (counts && restarted && trains && began_at >= open.raised_at) ++open.steps_since_restart;
    // A beat may report many steps.
    if (counts && !may_be_old) open.steps_since += beat.advanced;
    if (TrainsAgain(open, moment) || (open.is_over && open.symptoms.empty()))
      Resolve(i, "training goes on", moment, changes);
  }
}

void IncidentManager::AddStacks(std::optional<int64_t> rank, const StacksEvent& stacks) {
  std::string key = rank ? "stacks_of_rank_" + std::to_string(*rank) : std::string("stacks");
  if (stacks.is_of_nccl_ras) key = "nccl_ras";
  for (Open& open : open_) {
    if (FamilyOf(open.incident.kind) != Family::kLife) continue;
    open.incident.evidence.Set(key, stacks.text);
    open.is_changed = true;
  }
}

void IncidentManager::Adopt(const Incident& incident, const Moment& moment) {
  Open open;
  open.incident = incident;
  open.opened_at = open.raised_at = open.reported_at = open.active_at = moment.now;
  open.restarts = moment.run.restarts();
  open.is_adopted = true;
  open_.push_back(std::move(open));
}

std::vector<Incident> IncidentManager::OpenIncidents() const {
  std::vector<Incident> incidents;
  for (const Open& open : open_) incidents.push_back(open.incident);
  return incidents;
}

}  // namespace stepwatch::operations
