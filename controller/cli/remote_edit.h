// Edits of a config: the result of one, the request to the control socket of the job that watches the config, and the
// progress of the edit in the job.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

struct EditResult {
  ExitCode exit_code = kExitDone;
  Json json;         // for --json
  std::string line;  // for people
};

// In the format of the errors of the control socket. `via`: "door" (the control socket) or "file".
EditResult Failure(ExitCode exit_code, const char* via, const char* code, const std::string& message);
// An unusable text, read from `path`.
EditResult Unusable(const char* via, const std::string& path, const Status& refusal);

// Prints the result as one JSON object, or as a line, on standard error unless the edit is done. Returns the exit code.
int PrintResult(const EditResult& result, bool as_json);

struct RemoteEdit {
  std::string target;  // "/v1/apply"
  std::string body;
  std::string if_match;
  std::string name;  // of the body, for messages
  std::string done;  // the text about the config once it is changed: "now holds new.json"
};

// Repeats the request for a minute until the job answers; the job carries it out once. No value: the job accepts no
// edits through its control socket, because it is gone or runs an older release, and the config is unchanged.
std::optional<EditResult> EditRunningJob(const control_socket::FoundJob& job, const RemoteEdit& edit);

// Checks whether the job would accept this text.
std::optional<EditResult> ValidateInJob(const control_socket::FoundJob& job, const std::string& name,
                                        const std::string& text);

struct WaitArguments {
  std::string goal;      // "applied", "stopped", "drained"; empty: no wait
  double timeout = 0;    // seconds; 0: no limit
  bool prints = true;    // prints the result first, and on a terminal a line for each stage
  bool is_stop = false;  // the verb ends a collection
};

// Follows an edit in the job until it reaches the goal, and adds the outcome to `result`.
void AwaitEdit(const control_socket::FoundJob& job, const WaitArguments& arguments, EditResult* result);

// The progress of an edit in a running job. Pure: takes events and statuses, returns lines to print.
class EditWait {
 public:
  enum class Goal : uint8_t {
    kApplied,  // rows of the first collected step are written
    kStopped,  // for a stop: the plan is no longer active
    kDrained,  // all rows of the plan are written
  };
  enum class End : uint8_t { kReached, kFailed };

  enum class Verb : uint8_t { kBegin, kStop };

  // `change`: the answer of the control socket to the edit.
  EditWait(Goal goal, const Json& change, Verb verb = Verb::kBegin);

  // Each returns the lines for the news. Every event must be followed by a status.
  std::vector<std::string> OnEvent(const std::string& name, const Json& event_untrusted);
  std::vector<std::string> OnStatus(const Json& status_untrusted);
  // The job is gone: the events so far decide.
  void OnGone();

  // No value: undecided.
  std::optional<End> end() const { return end_; }
  // The reason of the failure, or the last trouble.
  const std::string& why() const { return why_; }
  // The last vote of the ranks failed.
  bool is_aborted() const { return is_aborted_; }
  uint64_t plan_id() const { return plan_id_; }
  // "applied_step", "collected_steps" and "ledger", as far as they are known.
  const Json& facts() const { return facts_; }

 private:
  void Fail(const std::string& why);
  bool IsStopOver(const std::string& state) const;
  // The id of the plan of this edit in the status; 0: no such plan.
  uint64_t PlanIn(const Json& status) const;

  const Goal goal_;
  const std::string sha256_;
  const bool is_stop_;  // no plan begins
  uint64_t plan_id_;    // 0: not known yet, or no plan
  bool is_begin_seen_;  // the event `applied` came, or will not come
  bool is_finished_ = false;
  bool is_drained_ = false;
  bool is_superseded_ = false;
  bool is_aborted_ = false;
  bool has_rows_ = false;
  std::optional<End> end_;
  std::string why_;
  Json facts_ = Json::object();
};

}  // namespace stepwatch::cli
