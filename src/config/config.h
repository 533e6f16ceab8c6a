// The typed form of config.json: every field of msProbe's TrainerMon with its default, plus the object "stepwatch".
//
// A value type: created by ParseConfig, then immutable, copied freely.
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
  kStrict,      // all at the same step, or not at all
  kBestEffort,  // at an announced step; a rank that learns of it too late follows at its next boundary
  kLocal,       // each at its own next boundary
};

inline constexpr size_t kSiteGroupsMax =
    63;                                     // together with the sites outside of groups they fit into a mask of 64 bits
inline constexpr size_t kExcludesMax = 16;  // per group

// One entry of "stepwatch": {"sites": ...}. The first group that matches a site decides how often it is collected, and
// which of its statistics.
struct SiteGroup {
  std::string match;                 // a NamePattern, like those of `exclude`
  std::vector<std::string> exclude;  // exceptions from `match`
  std::vector<SiteKind> kinds;       // in the order of SiteKind; empty: all kinds selected by the other fields
  int64_t every = 1;                 // every n-th collected step, counted from start_step; 0: never
  std::vector<Stat> ops;             // like Config::ops; empty: same as Config::ops

  bool operator==(const SiteGroup&) const = default;
};

// Limit of the share of training time that measuring may use: "stepwatch": {"budget": ...}, docs/use/budget.md.
struct Budget {
  double percent = 0;  // above 0, at most 100

  bool operator==(const Budget&) const = default;
};

// Behaviour of a restarted job if the file still requests a window that an earlier start has completed.
enum class OnRestart : uint8_t {
  kStart,  // begins the window again
  kOnce,   // does not begin it until requested
};

// The names of modules and parameters in rows.
enum class NameSource : uint8_t {
  kModel,  // as written by the user in the model
  kTorch,  // including the parts added by wrappers
};

// The object "stepwatch": options beyond msProbe.
struct OwnOptions {
  bool plan_id_column = false;                        // "columns": ["plan_id"]
  EpsMode eps_mode = EpsMode::kParity;                // "eps_mode": "parity" | "exact"
  Coordination coordination = Coordination::kStrict;  // "coordination": "strict" | "besteffort" | "local"
  OnRestart on_restart = OnRestart::kStart;           // "on_restart": "start" | "once"
  NameSource names = NameSource::kModel;              // "names": "model" | "torch"
  bool exit_after_struct = true;                      // the run ends when print_struct has written its structure
  std::vector<SiteGroup> sites;                       // at most kSiteGroupsMax
  std::optional<Budget> budget;                       // unset: no limit

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

// A remark on a config that is accepted.
struct Warning {
  enum class Kind : uint8_t {
    kUnknownKey,    // the message names the nearest known key
    kReplaced,      // a value was replaced; the message names the value used
    kNotEffective,  // accepted, has no effect in this version or with this front end; reported once a run for each key
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
