// Follows triggers with the actions of the policy, stores each change, starts deeds, and verifies them.
//
// A deed starts only after its action is safe in the store as running: while the store cannot be written, none starts.
// So no deed is started twice, whenever this process is killed. Decides nothing itself: see action_machine.h and
// guards.h. One thread; clock and deeds are injected.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/remedy/action_machine.h"
#include "operations/remedy/guards.h"
#include "operations/remedy/policy.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::remedy {

// Carries out deeds. `then` is called once, within the call or later; a deed that takes too long is given up by the
// caller, and its `then` is ignored.
class Deeds {
 public:
  virtual ~Deeds() = default;
  virtual void Start(const Action& action, const Rule& rule, std::function<void(Ended)> then) = 0;
  virtual void RollBack(const Action& action, const Rule& rule, std::function<void(Ended)> then) = 0;
};

struct RemedyCallbacks {
  // Adds the row of an action to the next batch of the store.
  std::function<void(const std::string& id, std::string text)> store;
  // Writes the batch; `then` gets whether it is safe.
  std::function<void(std::function<void(bool is_safe)> then)> flush;
  // The phase of a run; nullopt: unknown.
  std::function<std::optional<RunPhase>(const std::string& run)> phase;
  // An action needs a person, or has ended.
  std::function<void(const Action& action)> report;
  Deeds* deeds = nullptr;
};

class Remedy {
 public:
  static constexpr size_t kActionsMax = 5000;   // the newest that are over are kept up to this number
  static constexpr size_t kTriggersMax = 5000;  // beyond it, new ones are ignored
  // A way back is taken when the trigger has been over for so long.
  static constexpr double kOverSeconds = 60;

  explicit Remedy(RemedyCallbacks callbacks);
  ~Remedy();

  void Apply(Policy policy);
  // Rows of the previous process.
  void Restore(const std::map<std::string, std::string>& rows, double now);
  // A trigger has begun, or changed. A rule has one action at a time for one run, and one for each trigger.
  void Take(const Trigger& trigger, double now);
  void TakeEnd(std::string_view trigger_id, double now);
  // About once a second.
  void Tick(double now);

  // kNotFound: no such action. kUnavailable: it does not wait for an approval.
  Status Approve(std::string_view id, const std::string& by, const std::string& note, double now);
  Status Reject(std::string_view id, const std::string& by, const std::string& note, double now);

  // The newest first.
  std::vector<Action> List(bool pending_only, size_t limit) const;
  int64_t triggers_left_out() const { return triggers_left_out_; }

 private:
  struct Known {
    double begun_t = 0;
    std::optional<double> over_t;
  };

  void Begin(const Rule& rule, const Trigger& trigger, double now);
  const Rule* RuleOf(const Action& action) const;
  ActionTimes TimesOf(const Action& action) const;
  void Feed(const std::string& id, const ActionInput& input, double now);
  void Perform(const std::string& id, Effect effect, double now);
  void Start(const std::string& id, bool is_back);
  void AskGuards(const std::string& id, double now);
  void PassOver(const std::string& trigger_id, double now);
  void ForgetOld();

  const RemedyCallbacks callbacks_;
  Policy policy_;
  Actions actions_;
  std::map<std::string, Known, std::less<>> triggers_;
  int64_t triggers_left_out_ = 0;
  double now_ = 0;
  // Answers of deeds and of the store that come after its end are ignored.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace stepwatch::operations::remedy
