// The typed form of config.json: every field of msProbe's TrainerMon with its default, plus the object "stepwatch".
//
// A value type: made by ParseConfig, never changed afterwards, copied freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/record_layout.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/statistics.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

inline constexpr int64_t kCollectTimesForever = 100000000;

struct AlertRule {
  std::string rule_name;  // "AnomalyTurbulence" or "AnomalyNan"
  std::optional<double> threshold;

  bool operator==(const AlertRule&) const = default;
};

struct Alert {
  std::vector<AlertRule> rules;
  bool dump = false;

  bool operator==(const Alert&) const = default;
};

struct CcDistribution {
  bool enable = false;
  std::vector<std::string> cc_codeline;
  bool cc_pre_hook = false;
  bool cc_log_only = false;

  bool operator==(const CcDistribution&) const = default;
};

// How the ranks of a job choose the step at which they apply an edit.
enum class Coordination : uint8_t {
  kStrict,      // all at the same step, or none
  kBestEffort,  // at an announced step; a rank that hears of it too late follows at its next boundary
  kLocal,       // each at its own next boundary
};

inline constexpr size_t kSiteGroupsMax = 63;  // with the sites of no group they fit into a mask of 64 bits
inline constexpr size_t kExcludesMax = 16;    // of one group

// One entry of "stepwatch": {"sites": ...}. Of several that name a site the first decides: how often it is collected,
// and which statistics of it.
struct SiteGroup {
  std::string match;                 // a NamePattern, like those of `exclude`
  std::vector<std::string> exclude;  // not what these match
  std::vector<SiteKind> kinds;       // in the order of SiteKind; empty: all that is selected without it
  int64_t every = 1;                 // of the collected steps, counted from start_step; 0: none
  std::vector<Stat> ops;             // like Config::ops; empty: those

  bool operator==(const SiteGroup&) const = default;
};

// How much of the training time measuring may take: "stepwatch": {"budget": ...}, docs/use/budget.md.
struct Budget {
  double percent = 0;  // above 0, at most 100

  bool operator==(const Budget&) const = default;
};

// What a start of a job does with a window that an earlier start of it has done, if the file still asks for it.
enum class OnRestart : uint8_t {
  kStart,  // begins it again
  kOnce,   // does not, until somebody asks for it
};

// Under which names modules and parameters stand in rows.
enum class NameSource : uint8_t {
  kModel,  // as the user wrote them in the model
  kTorch,  // with what wrappers have put in
};

// The object "stepwatch": what is ours.
struct OwnOptions {
  bool plan_id_column = false;                        // "columns": ["plan_id"]
  EpsMode eps_mode = EpsMode::kParity;                // "eps_mode": "parity" | "exact"
  Coordination coordination = Coordination::kStrict;  // "coordination": "strict" | "besteffort" | "local"
  OnRestart on_restart = OnRestart::kStart;           // "on_restart": "start" | "once"
  NameSource names = NameSource::kModel;              // "names": "model" | "torch"
  bool exit_after_struct = true;                      // the run ends when print_struct has its structure
  std::vector<SiteGroup> sites;                       // at most kSiteGroupsMax
  std::optional<Budget> budget;                       // unset: what is asked for is collected, whatever it costs

  bool operator==(const OwnOptions&) const = default;
};

struct Config {
  std::vector<std::string> targets;  // keys in file order; values are never used
  bool dynamic_on = false;
  int64_t start_step = 0;
  int64_t collect_times = kCollectTimesForever;
  int64_t step_interval = 1;
  bool print_struct = false;
  std::vector<int64_t> module_ranks;  // empty: all
  bool ur_distribution = false;
  bool xy_distribution = false;
  bool all_xy = false;  // also true if targets is empty and xy_distribution is true
  bool forward_only = false;
  bool backward_only = false;
  bool mv_distribution = false;
  bool wg_distribution = false;
  bool monitor_mbs_grad = false;
  bool param_distribution = false;
  bool mg_direction = false;
  CcDistribution cc_distribution;
  Alert alert;
  OutputFormat format = OutputFormat::kCsv;
  std::vector<Stat> ops;  // normalised: unknown ones left out, norm if empty, shape and dtype last unless placed
  double eps = 1e-8;
  std::optional<int> ndigits;  // unset: shortest text that reads back to the same double
  int64_t step_count_per_record = 1;
  std::vector<std::string> append_output;  // empty, or the two ends of a time range
  bool squash_name = false;
  bool stack_info = false;
  std::map<std::string, std::vector<std::string>> l2_targets;
  bool recording_l2_features = false;
  std::string sa_order = "s,b,h,d";
  OwnOptions own;

  bool operator==(const Config&) const = default;
};

// Something worth a word in a config that is accepted all the same.
struct Warning {
  enum class Kind : uint8_t {
    kUnknownKey,    // names the nearest known key
    kReplaced,      // a value was replaced; the message names the value used
    kNotEffective,  // accepted, has no effect in this version or with this front end; said once a run for each key
    kNote,
  };
  Kind kind = Kind::kNote;
  TextPlace place;
  std::string message;
};

struct ParsedConfig {
  Config config;
  std::vector<Warning> warnings;  // in file order
};

}  // namespace stepwatch::config
