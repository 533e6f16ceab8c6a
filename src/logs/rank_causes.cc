#include "src/logs/rank_causes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace stepwatch::logs {
namespace {

// Survivors of a fault finish the step that they are in, and at most one more.
constexpr double kRecoverySecondsMin = 60;
constexpr double kRecoverySteps = 3;
// Consequences of a crash are printed within this time of it. Hosts whose clocks could not be compared get more.
constexpr double kTogetherSeconds = 20;
constexpr double kTogetherSecondsOtherClock = 240;

// How much a class explains, among faults of about the same time; 0: no cause.
struct Strength {
  std::string_view name;
  int strength;
};
constexpr int kUsualStrength = 80;
constexpr Strength kStrengths[] = {
    {"node_fail", 100},
    {"gpu_lost", 99},
    {"ecc_uncorrectable", 98},
    {"row_remap_fail", 98},
    {"host_oom_kill", 97},
    {"cgroup_oom", 97},
    {"link_down", 96},
    {"nvlink_error", 95},
    {"gpu_hw_fault", 94},
    {"pcie_aer", 93},
    {"time_limit", 96},
    {"preempted", 96},
    {"disk_full", 92},
    {"io_error", 91},
    {"device_unavailable", 90},
    {"device_oom", 88},
    {"device_assert", 87},
    {"cuda_illegal_access", 86},
    {"module_missing", 86},
    {"checkpoint_corrupt", 86},
    {"bad_sample", 82},
    {"path_missing", 82},
    {"dataloader_dead", 76},
    {"segfault", 74},
    {"xid_app", 70},
    {"loss_nonfinite", 72},
    {"grad_nonfinite", 71},
    {"loss_scale_floor", 66},
    {"host_memory_error", 60},
    {"python_exception", 62},
    {"rendezvous_fail", 56},
    {"killed_unknown", 58},
    {"user_cancel", 55},
    {"checkpoint_write_fail", 79},
    {"object_store_error", 78},
    // Symptoms.
    {"fs_stall", 50},
    {"host_stall", 49},
    {"hccl_error", 45},
    {"nccl_error", 42},
    {"nccl_timeout", 40},
    {"watchdog_stuck", 39},
    {"thermal_throttle", 30},
    {"slow_rank", 30},
    {"loss_spike", 20},
    {"grad_spike", 20},
};

int StrengthOf(std::string_view name) {
  for (const Strength& each : kStrengths)
    if (each.name == name) return each.strength;
  return kUsualStrength;
}

bool IsAnyOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// These also happen to healthy ranks when a job ends.
bool HappensAtEnds(std::string_view name) {
  return IsAnyOf(name, {"segfault", "dataloader_dead", "python_exception", "xid_app", "user_cancel", "killed_unknown",
                        "host_alloc_fail", "cuda_illegal_access", "checkpoint_write_fail", "rendezvous_fail",
                        "object_store_error", "checkpoint_corrupt", "nccl_net_error"});
}

bool IsNumeric(std::string_view name) {
  return IsAnyOf(name, {"loss_nonfinite", "grad_nonfinite", "grad_spike", "loss_spike"});
}

std::optional<int64_t> NumberOf(const Anomaly& anomaly, std::string_view fact) {
  for (const auto& [name, value] : anomaly.facts) {
    int64_t number = 0;
    if (name == fact && std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc())
      return number;
  }
  return std::nullopt;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

enum class Bucket : uint8_t { kCause, kSymptom, kConsequence, kNone };

struct Event {
  size_t index = 0;  // of the record
  double t = 0;      // corrected
  bool is_clock_known = false;
  const Record* record = nullptr;
  const Anomaly* anomaly = nullptr;  // the one that explains most
  int strength = 0;
  Bucket bucket = Bucket::kNone;
  size_t cluster = 0;
};

double MomentOf(const Record& record) {
  return record.t ? *record.t : record.observed_t;
}

// Differences of clocks, from steps that several hosts finished: all ranks finish a step at about the same time.
class Clocks {
 public:
  explicit Clocks(std::span<const Record> records) {
    std::map<std::string_view, std::map<int64_t, double>> steps;  // by host
    for (const Record& record : records)
      if (record.progress && record.progress->step && !record.progress->is_evaluation)
        steps[record.host].emplace(*record.progress->step, MomentOf(record));
    if (steps.empty()) return;
    const auto reference = std::max_element(
        steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::vector<double> gaps;
    for (auto it = reference->second.begin(); it != reference->second.end(); ++it)
      if (const auto next = std::next(it); next != reference->second.end())
        gaps.push_back((next->second - it->second) / static_cast<double>(next->first - it->first));
    step_seconds_ = std::max(0.0, Median(gaps));
    for (const auto& [host, times] : steps) {
      std::vector<double> differences;
      for (const auto& [step, t] : times)
        if (const auto same = reference->second.find(step); same != reference->second.end())
          differences.push_back(t - same->second);
      if (!differences.empty()) offsets_[host] = Median(differences);
    }
  }

  double Corrected(const Record& record) const {
    const auto found = offsets_.find(record.host);
    return MomentOf(record) - (found == offsets_.end() ? 0 : found->second);
  }
  bool Knows(std::string_view host) const { return offsets_.contains(host); }
  double step_seconds() const { return step_seconds_; }

 private:
  std::map<std::string_view, double> offsets_;
  double step_seconds_ = 0;
};

// The steps that were finished, to decide whether a run went on after a fault.
class FinishedSteps {
 public:
  FinishedSteps(std::span<const Record> records, const Clocks& clocks) : clocks_(clocks) {
    for (const Record& record : records) {
      if (!record.progress || !record.progress->step || record.progress->is_evaluation) continue;
      const bool is_healthy = std::none_of(record.anomalies.begin(), record.anomalies.end(),
                                           [](const Anomaly& each) { return IsNumeric(each.name); });
      steps_.push_back({clocks.Corrected(record), *record.progress->step, record.rank, is_healthy, 0});
    }
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.t < b.t; });
    int64_t reached = std::numeric_limits<int64_t>::min();
    for (Step& step : steps_) step.reached = reached = std::max(reached, step.step);
  }

  bool WentOnAfter(const Event& event) const {
    const bool is_numeric = IsNumeric(event.anomaly->name);
    const double margin = std::max(kRecoverySecondsMin, kRecoverySteps * clocks_.step_seconds()) +
                          (event.is_clock_known ? 0 : kTogetherSecondsOtherClock);
    const auto later =
        std::upper_bound(steps_.begin(), steps_.end(), event.t, [](double t, const Step& step) { return t < step.t; });
    const int64_t reached = later == steps_.begin() ? std::numeric_limits<int64_t>::min() : std::prev(later)->reached;
    std::optional<int64_t> first;
    for (auto step = later; step != steps_.end(); ++step) {
      if (step->step <= reached || (is_numeric && !step->is_healthy)) continue;
      // A rank that finishes steps after its own message survived it. The step at hand may end in any case.
      const bool is_own = step->rank && step->rank == event.record->rank;
      if (!is_own && !is_numeric && step->t <= event.t + margin) continue;
      if (first && *first != step->step) return true;
      first = step->step;
    }
    return false;
  }

 private:
  struct Step {
    double t;
    int64_t step;
    std::optional<int64_t> rank;
    bool is_healthy;
    int64_t reached;  // the largest step until then
  };
  const Clocks& clocks_;
  std::vector<Step> steps_;  // by time
};

Bucket BucketOf(const Anomaly& anomaly) {
  if (anomaly.name == "killed_unknown") return Bucket::kCause;
  switch (anomaly.role) {
    case Role::kRoot: return Bucket::kCause;
    case Role::kSymptom: return Bucket::kSymptom;
    case Role::kCascade: return Bucket::kConsequence;
    case Role::kNotice: return Bucket::kNone;
  }
  return Bucket::kNone;
}

std::vector<Event> EventsOf(std::span<const Record> records, const Clocks& clocks) {
  std::vector<Event> events;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    if (record.anomalies.empty()) continue;
    Event event{
        .index = i, .t = clocks.Corrected(record), .is_clock_known = clocks.Knows(record.host), .record = &record};
    for (const Anomaly& anomaly : record.anomalies) {
      const Bucket bucket = BucketOf(anomaly);
      const int strength = StrengthOf(anomaly.name);
      if (event.anomaly != nullptr && std::tuple(bucket, -strength) >= std::tuple(event.bucket, -event.strength))
        continue;
      event.anomaly = &anomaly;
      event.bucket = bucket;
      event.strength = strength;
    }
    events.push_back(event);
  }
  return events;
}

// The ranks that others name, or that entered fewer collectives than others.
std::set<int64_t> CulpritsOf(const std::vector<Event>& events) {
  std::set<int64_t> culprits;
  std::map<int64_t, int64_t> entered;  // by rank: collectives
  for (const Event& event : events) {
    for (const Anomaly& anomaly : event.record->anomalies) {
      if (anomaly.culprit_rank) culprits.insert(*anomaly.culprit_rank);
      const std::optional<int64_t> sequence = NumberOf(anomaly, "enqueued");
      if (sequence && event.record->rank) entered.try_emplace(*event.record->rank, *sequence);
    }
  }
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  for (const auto& [rank, sequence] : entered) {
    least = std::min(least, sequence);
    most = std::max(most, sequence);
  }
  if (least < most)
    for (const auto& [rank, sequence] : entered)
      if (sequence == least) culprits.insert(rank);
  return culprits;
}

// The times at which the end of the job, or of a part of it, began: after them, processes end in many ways.
class Ends {
 public:
  explicit Ends(const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (event.bucket == Bucket::kNone) continue;
      for (const Anomaly& anomaly : event.record->anomalies) {
        if (anomaly.name == "nccl_timeout" || anomaly.name == "watchdog_stuck") hang_ = std::min(hang_, event.t);
        if (anomaly.name == "teardown") Note(event.record->host, event.t, &of_host_);
        if (anomaly.role == Role::kCascade && event.record->rank) Note(*event.record->rank, event.t, &of_rank_);
        if (!IsDecision(anomaly)) continue;
        Note(event.record->host, event.t, &decisions_of_host_);
        decision_ = std::min(decision_, event.t + (event.is_clock_known ? 0 : kTogetherSeconds));
      }
    }
  }

  bool BeganBefore(const Event& event) const {
    if (hang_ < event.t || IsBefore(event.record->host, event.t, of_host_)) return true;
    if (event.record->rank && IsBefore(*event.record->rank, event.t, of_rank_)) return true;
    return decision_ < event.t || IsBefore(event.record->host, event.t, decisions_of_host_);
  }

 private:
  template <typename Key>
  using Times = std::map<Key, double>;

  static bool IsDecision(const Anomaly& anomaly) {
    return anomaly.role == Role::kRoot &&
           IsAnyOf(anomaly.name, {"time_limit", "preempted", "user_cancel", "node_fail"});
  }
  template <typename Key>
  static void Note(const std::type_identity_t<Key>& key, double t, Times<Key>* times) {
    const auto [found, is_new] = times->emplace(key, t);
    if (!is_new) found->second = std::min(found->second, t);
  }
  template <typename Key>
  static bool IsBefore(const std::type_identity_t<Key>& key, double t, const Times<Key>& times) {
    const auto found = times.find(key);
    return found != times.end() && found->second < t;
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  double hang_ = kNever, decision_ = kNever;
  Times<std::string_view> of_host_, decisions_of_host_;
  Times<int64_t> of_rank_;
};

}  // namespace

std::vector<size_t> RankCauses(std::span<const Record> records) {
  const Clocks clocks(records);
  const FinishedSteps steps(records, clocks);
  std::vector<Event> events = EventsOf(records, clocks);
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.t < b.t; });
  const std::set<int64_t> culprits = CulpritsOf(events);

  for (Event& event : events)
    if (event.bucket != Bucket::kNone && steps.WentOnAfter(event)) event.bucket = Bucket::kNone;
  const Ends ends(events);
  for (Event& event : events) {
    if (event.record->rank && culprits.contains(*event.record->rank)) event.strength += 15;
    if (event.bucket == Bucket::kCause && HappensAtEnds(event.anomaly->name) && ends.BeganBefore(event))
      event.bucket = Bucket::kConsequence;
  }

  // Faults of about the same time compete by what they explain, others by time.
  const Event* first = nullptr;
  size_t cluster = 0;
  for (Event& event : events) {
    if (event.bucket != Bucket::kCause) continue;
    const bool is_comparable = first != nullptr && (event.record->host == first->record->host ||
                                                    (event.is_clock_known && first->is_clock_known));
    if (first == nullptr || event.t > first->t + (is_comparable ? kTogetherSeconds : kTogetherSecondsOtherClock)) {
      first = &event;
      ++cluster;
    }
    event.cluster = cluster;
  }

  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.bucket, a.cluster, -a.strength, a.t) < std::tuple(b.bucket, b.cluster, -b.strength, b.t);
  });
  std::vector<size_t> order;
  order.reserve(events.size());
  for (const Event& event : events) order.push_back(event.index);
  return order;
}

}  // namespace stepwatch::logs
