// The object "remedy" of stepwatchd.json: which action follows which trigger, under which conditions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/remedy/action.h"
#include "src/config/field.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::remedy {

// All that is given must match. Patterns may contain * for any characters; an empty one matches all.
struct Match {
  std::string kind;
  std::vector<Severity> severities;
  std::string run;
  std::string owner;
  std::vector<std::pair<std::string, std::string>> labels;  // of an alert: name and pattern

  bool operator==(const Match&) const = default;
};

// An allowed program, called without a shell. In an element of `argv`, {node}, {run}, {kind} and {rank} stand for the
// trigger's; the program is not called if one of them is unknown or has other characters than names of hosts have.
struct Program {
  std::string name;
  std::vector<std::string> argv;
  int64_t seconds = 60;     // until it is killed
  bool takes_node = false;  // it takes the node out of work: counted against nodes_max

  bool operator==(const Program&) const = default;
};

struct Rule {
  std::string name;
  Match match;

  // Guards.
  double after_seconds = 0;  // the trigger must last so long
  std::vector<RunPhase> phases;
  std::optional<int64_t> ranks_max;  // culprits

  // The deed.
  DeedType type = DeedType::kNotify;
  std::string collect;           // escalate: keys of config.json as a JSON object
  int64_t steps = 20;            // escalate
  std::string command;           // command: its name
  std::string arguments;         // command: a JSON object
  std::string program;           // program: its name
  std::string undo;              // program: the one that is the way back
  double power_ratio = 0;        // power_limit: of the default limit
  int64_t checkpoints_kept = 3;  // checkpoints: the newest ones

  std::optional<bool> approval;

  // Limits.
  int64_t per_day_max = 3;  // for each run, or host
  double cooldown_seconds = 3600;

  bool verifies = true;  // the trigger must end
  double verify_seconds = 600;
  double expires_seconds = 3600;

  bool operator==(const Rule&) const = default;
};

enum class Mode : uint8_t { kOff, kShadow, kAct };

struct Policy {
  Mode mode = Mode::kShadow;
  int64_t nodes_max = 1;  // that actions may have out of work at a time
  std::vector<Program> programs;
  std::vector<Rule> rules;

  bool operator==(const Policy&) const = default;
};

inline constexpr size_t kRulesMax = 100;
inline constexpr size_t kProgramsMax = 32;

Status ReadPolicy(const config::Field& field, config::Notes& notes, Policy& out);

// Whether an action changes the course of the training, so that it needs an approval unless its rule says otherwise.
bool ChangesTraining(const Rule& rule);
bool NeedsApproval(const Rule& rule);

bool MatchesTrigger(const Match& match, const Trigger& trigger);
const Program* ProgramNamed(const Policy& policy, std::string_view name);

}  // namespace stepwatch::operations::remedy
