// How far an edit has come in a running job: what `--wait` follows. Pure: events and statuses in, lines for people out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::cli {

class EditWait {
 public:
  enum class Goal : uint8_t {
    kApplied,  // rows of the first collected step are written
    kStopped,  // of a stop: the plan is no longer in force
    kDrained,  // all rows of the plan are written
  };
  enum class End : uint8_t { kReached, kFailed };

  enum class Verb : uint8_t { kBegin, kStop };

  // `change`: what the control socket has answered to the verb.
  EditWait(Goal goal, const Json& change, Verb verb = Verb::kBegin);

  // Each answers what is new. A status is to be asked for after an event.
  std::vector<std::string> OnEvent(const std::string& name, const Json& event_untrusted);
  std::vector<std::string> OnStatus(const Json& status_untrusted);
  // The job is gone: what has been told until now counts.
  void OnGone();

  // Nothing: not yet.
  std::optional<End> end() const { return end_; }
  // Why it has failed, or the last trouble.
  const std::string& why() const { return why_; }
  // The ranks did not agree, the last time.
  bool is_aborted() const { return is_aborted_; }
  uint64_t plan_id() const { return plan_id_; }
  // "applied_step" and "ledger", as far as they are known.
  const Json& facts() const { return facts_; }

 private:
  void Fail(const std::string& why);
  bool IsStopOver(const std::string& state) const;
  // Of the plan of these bytes in the status; 0: there is none.
  uint64_t PlanIn(const Json& status) const;

  const Goal goal_;
  const std::string sha256_;
  const bool is_stop_;  // there is nothing to begin
  uint64_t plan_id_;    // 0: not known yet, or none
  bool is_told_of_;     // the beginning of the plan has been told, or will not be
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
