// Makes the incidents of one run from findings.
//
// A finding opens an incident, unless an open one explains it: then it joins the evidence of that one as a symptom. A
// finding with a hold time first waits for a better explanation. An incident is resolved when its detector clears it,
// or when the run trains again.
#pragma once

#include <string>
#include <vector>

#include "operations/detectors/finding.h"
#include "operations/incidents/causes.h"
#include "operations/runs/run_state.h"
#include "operations/runs/virtual_clock.h"

namespace stepwatch::operations {

class IncidentManager {
 public:
  // Context of each call: the run after it has applied the line, and the time.
  struct Moment {
    const RunState& run;
    const VirtualClock& clock;
    double now = 0;
  };

  explicit IncidentManager(std::string run) : run_(std::move(run)) {}

  // Changes are appended to `changes` in the order in which they happen.
  void Take(std::vector<Findings::Entry> entries, const Moment& moment, std::vector<Incident>* changes);
  void Tick(const Moment& moment, std::vector<Incident>* changes);
  // A rank has finished steps.
  void TakeAdvance(const BeatFacts& beat, const Moment& moment, std::vector<Incident>* changes);
  // Evidence without a finding: stacks, for open incidents of this rank, or of the whole run.
  void AddStacks(std::optional<int64_t> rank, const StacksEvent& stacks);
  void Adopt(const Incident& incident, const Moment& moment);
  std::vector<Incident> OpenIncidents() const;

 private:
  struct Symptom {
    IncidentKind kind;
    std::string key;
  };
  struct Open {
    Incident incident;
    std::string key;
    double opened_at = 0;
    double raised_at = 0;  // last
    double reported_at = 0;
    int64_t restarts = 0;     // of the run, when it was opened
    int64_t steps_since = 0;  // that the run, or a culprit, has finished since
    int64_t steps_since_restart = 0;
    std::optional<double> rewound_at;    // when a rank last went back to an earlier step
    std::optional<int64_t> opened_step;  // of the run at that time, as reported by later beats
    // The last time it was opened, or another symptom began.
    double active_at = 0;
    std::optional<int64_t> active_step;
    std::vector<Symptom> symptoms;  // still present, of its own family
    bool is_over = false;           // except for these
    bool is_changed = false;        // since it was published
    bool is_adopted = false;
  };
  struct Waiting {
    Finding finding;
    double due = 0;
    double at = 0;
  };

  void Raise(Finding finding, const Moment& moment, std::vector<Incident>* changes);
  void Recover(const Recovery& recovery, const Moment& moment, std::vector<Incident>* changes);
  void OpenFor(Finding finding, double at, const Moment& moment, std::vector<Incident>* changes);
  bool Join(const Finding& finding, const Moment& moment, std::vector<Incident>* changes);
  bool Absorb(const Finding& finding, const Moment& moment, std::vector<Incident>* changes);
  CauseView ViewOf(const Open& open, const Finding& finding, const Moment& moment) const;
  bool HasSymptom(const Finding& finding) const;
  bool HasBegunAnew(const Open& open, const Moment& moment) const;
  bool TrainsOnWithout(const Open& open, const Moment& moment) const;
  void AddSymptom(const Finding& finding, Open* open);
  void Emit(Open* open, IncidentState state, const Moment& moment, std::vector<Incident>* changes);
  void Resolve(size_t i, const char* how, const Moment& moment, std::vector<Incident>* changes);
  bool IsYetToCome(const Open& open, const Moment& moment) const;
  bool TrainsAgain(const Open& open, const Moment& moment) const;
  Open* Find(IncidentKind kind, const std::string& key);

  std::string run_;
  std::vector<Open> open_;
  std::vector<Waiting> waiting_;
  int64_t openings_ = 0;
};

}  // namespace stepwatch::operations
