// A run without threads, clocks and files: the pure machine, a config file, a step thread and its messages, each moved
// by hand. After every input it checks what must hold in every state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/reload/machine.h"
#include "src/plan/step_rule.h"
#include "tests/catch.h"

// REQUIRE counts and remembers; this is asked some ten million times.
#define MUST(condition) \
  if (!(condition)) FAIL("must hold: " #condition "\nafter" << history_)

namespace stepwatch::reload {

// A version of the config file. Its name stands for its hash.
struct Text {
  std::string name;
  EditIntent intent = EditIntent::kOff;
  plan::StepRule rule;  // kRun
};

class SimulatedRun {
 public:
  SimulatedRun(bool dynamic, int64_t first_step) : step_(first_step) { state_.dynamic = dynamic; }

  // --- somebody at the file ---
  void Save(const Text& text) {
    history_ += " save:" + text.name;
    file_ = text;
  }
  void Lose() {
    history_ += " lose";
    file_.reset();
  }
  // The watcher passes on what is new to it.
  void Look() {
    history_ += " look";
    const std::string identity = file_ ? file_->name : "missing";
    if (file_ && std::exchange(found_, identity) != identity) ++version_;
    if (identity == passed_on_) return;
    passed_on_ = identity;
    if (file_ && file_->name != state_.in_file.value_or(state_.seen)) WithdrawResampled();
    if (!file_) return Feed(FileLost{EventKind::kMissing});
    texts_[file_->name] = *file_;
    if (file_->intent == EditIntent::kDone) done_.insert(file_->name);
    Feed(BytesSeen{file_->name, file_->intent});
  }

  // --- requests to the run itself ---
  void Override(const Text& text, bool returns = false) {
    history_ += (returns ? " lend:" : " give:") + text.name;
    texts_[text.name] = text;
    WithdrawResampled();
    Feed(OverrideBytes{text.name, text.intent, returns});
  }
  // For the window of the file, once more; a request reads the file first.
  void AskAgain(const Text& text) {
    Look();
    if (state_.seen != text.name) return;
    history_ += " again:" + text.name;
    texts_[text.name] = text;
    Feed(EditRepeated{text.name});
  }
  void Pause(bool pause) {
    history_ += pause ? " pause" : " resume";
    Feed(PauseRequested{pause});
  }

  // --- the step thread ---
  void BeginFirstStep() { TakePlans(step_); }
  void EndStep() {
    history_ += " end-step";
    if (Collecting()) {
      collected_.push_back({step_, window_->plan_id});
      if (++window_->collected >= window_->rule.times) EndWindow(step::EndReason::kTimes);
    }
    TakePlans(step_ + 1);
    ++step_;
    if (window_ && state_.window && window_->first_plan == state_.window->window)
      MUST(window_->paused == state_.window->paused);
  }

  // --- the drain ---
  bool DeliverOne() {
    if (board_.empty()) return false;
    history_ += " deliver";
    const Input input = board_.front();
    board_.pop_front();
    Feed(input);
    return true;
  }
  void DeliverAll() {
    while (DeliverOne()) {
    }
  }

  // Between steps what is in force goes over to its new plan at once, otherwise at the next boundary.
  void Recompile(bool between_steps = false, bool in_force = true) {
    history_ += between_steps ? " recompile" : in_force ? " recompile-in-step" : " recompile-armed";
    LearnWhatBegan();
    WithdrawResampled();
    const bool goes_on = window_ && state_.window && window_->plan_id == state_.window->plan_id;
    Feed(Recompiled{in_force && goes_on});
    if (between_steps) TakePlans(step_);
  }
  // The window is to go on with another sampling, from a step that is to come; what comes before that takes it back.
  void Resample(int64_t steps) {
    history_ += " resample" + std::to_string(steps);
    LearnWhatBegan();
    if (!state_.window || state_.stopping || state_.armed || state_.window->continuation != 0) return;
    Feed(Resampled{state_.next_plan_id});
    slot_ = Pending{*std::exchange(continuation_, std::nullopt), step_ + steps, {}, true};
  }
  // A limit of the run does not let the newest plan go on.
  void Limit() {
    history_ += " limit";
    WithdrawResampled();
    if (state_.armed) complete_.insert(state_.armed->plan_id);
    Feed(LimitReached{});
  }
  // From here on the file is read-only.
  void Protect() { is_protected_ = true; }
  // From here on a write-back takes until FinishWriteBack, and other things happen meanwhile.
  void SlowFiles() { files_are_slow_ = true; }
  void FinishWriteBack() {
    if (ordered_.empty()) return;
    history_ += " write-back";
    const auto [order, version] = ordered_.front();
    ordered_.pop_front();
    ++write_backs_;
    const bool is_same = file_ && file_->name == order.base_sha256 && version == version_;
    const bool written = is_same && !is_protected_;
    if (written) file_ = Text{order.base_sha256 + " with false", EditIntent::kOff, {}};
    const bool is_news = state_.in_file.value_or(state_.seen) == order.base_sha256;
    passed_on_ = is_same && is_news ? file_->name : "";
    if (!is_same) return Feed(FoundEdited{order.base_sha256, order.plan_id});
    Feed(WroteBack{order.base_sha256, file_->name});
  }
  // The step thread had stopped waiting for what it was to take.
  void Discard() {
    history_ += " discard";
    if (continuation_) Feed(Discarded{*std::exchange(continuation_, std::nullopt)});
  }

  // Lets everything run out. Then nothing may be left over, and the file must not ask for what is done.
  void CheckRunsOut() {
    history_ += " |";
    Look();
    for (int i = 0; i < 12; ++i) {
      if (state_.window && state_.window->paused) Pause(false);
      EndStep();
      DeliverAll();
      while (!ordered_.empty()) FinishWriteBack();  // a limit may have ordered several
      Look();
    }
    MUST(ordered_.empty());
    MUST((!slot_ && !continuation_));
    MUST(!window_);
    MUST(!state_.window);
    MUST(!state_.armed);
    MUST(!state_.stopping);
    MUST(state_.draining.empty());
    MUST(RunStateOf(state_) == (state_.dynamic ? RunState::kIdle : RunState::kOff));
    if (file_ && state_.dynamic && !state_.in_file && !is_protected_)
      MUST((file_->intent == EditIntent::kOff || file_->intent == EditIntent::kRefused));
  }

  struct CollectedStep {
    int64_t step = 0;
    PlanId plan_id = 0;
  };
  const std::vector<CollectedStep>& collected() const { return collected_; }
  const std::map<PlanId, Text>& plans() const { return plans_; }
  const MachineState& state() const { return state_; }
  const std::optional<Text>& file() const { return file_; }
  const std::vector<Action>& actions() const { return actions_; }  // of the last input
  int write_backs() const { return write_backs_; }

 private:
  struct Pending {
    PlanId plan_id = 0;  // 0: stop
    int64_t at_step = 0;
    step::EndReason stop_reason = step::EndReason::kStopped;
    bool continues = false;  // the window in force
  };
  struct Window {
    PlanId plan_id = 0;
    plan::StepRule rule;
    int64_t collected = 0;
    PlanId first_plan = 0;
    bool paused = false;
  };

  bool Collecting() const { return window_ && !window_->paused && window_->rule.Collects(step_, window_->collected); }

  void EndWindow(step::EndReason reason) {
    const PlanId id = window_->plan_id;
    if (reason == step::EndReason::kTimes || reason == step::EndReason::kLimited) complete_.insert(id);
    window_.reset();
    board_.push_back(Finished{id, reason});
    board_.push_back(Drained{id, reason});
  }

  void TakePlans(int64_t next_step) {
    TakeSlot(next_step);
    if (!pause_asked_) return;
    const SetPause asked = *std::exchange(pause_asked_, std::nullopt);
    if (window_ && window_->first_plan == asked.window) window_->paused = asked.pause;
  }
  void TakeSlot(int64_t next_step) {
    if (continuation_) Continue(*std::exchange(continuation_, std::nullopt));
    if (!slot_ || slot_->at_step > next_step) return;
    const Pending plan = *std::exchange(slot_, std::nullopt);
    if (plan.plan_id == 0) {
      if (window_) EndWindow(plan.stop_reason);
      return;
    }
    if (plan.continues) return Continue(plan.plan_id);
    Window next{plan.plan_id, plans_.at(plan.plan_id).rule, 0, plan.plan_id, false};
    if (state_.dynamic) next.rule.start = next_step;
    Begin(next);
  }
  void Continue(PlanId id) {
    if (window_) Begin({id, window_->rule, window_->collected, window_->first_plan, window_->paused});
  }
  void Begin(const Window& next) {
    MUST(next.plan_id > newest_begun_);
    newest_begun_ = next.plan_id;
    if (window_) EndWindow(step::EndReason::kReplaced);
    board_.push_back(Applied{next.plan_id});
    window_ = next;
  }

  void LearnWhatBegan() {
    const auto has_begun = [this](const MachinePlan& plan) { return plan.plan_id == newest_begun_; };
    const bool continues = state_.window && state_.window->continuation == newest_begun_;
    if (newest_begun_ != 0 && (continues || std::any_of(state_.published.begin(), state_.published.end(), has_begun)))
      Feed(Applied{newest_begun_});
  }
  void WithdrawResampled() {
    if (!slot_ || !slot_->continues) return;
    Feed(Discarded{std::exchange(slot_, std::nullopt)->plan_id});
  }

  void Feed(const Input& input) {
    const PlanId next = state_.next_plan_id;
    Transition transition = Step(state_, input);
    state_ = transition.state;
    CheckState();
    CheckActions(input, transition.actions, next);
    for (const Action& action : transition.actions) std::visit([this](const auto& each) { Perform(each); }, action);
    actions_ = std::move(transition.actions);
  }

  void CheckState() const {
    if (state_.stopping) MUST((state_.window && !state_.armed));
    if (state_.armed) MUST((!state_.published.empty() && state_.published.back().plan_id == state_.armed->plan_id));
    if (state_.armed && state_.window) MUST(state_.window->plan_id < state_.armed->plan_id);
    if (state_.due) MUST(state_.due->sha256 == state_.seen);
    PlanId newest = 0;
    for (const MachinePlan& plan : state_.published) {
      MUST(plan.plan_id > newest);
      newest = plan.plan_id;
    }
    MUST(newest < state_.next_plan_id);
  }

  // Only an edit or a recompilation publishes; our own write-back does not.
  void CheckActions(const Input& input, const std::vector<Action>& actions, PlanId next) const {
    const auto count = [&](const auto& is_it) { return std::count_if(actions.begin(), actions.end(), is_it); };
    const auto of_edit = count([](const Action& action) {
      return std::holds_alternative<PublishPlan>(action) || std::holds_alternative<PublishStop>(action);
    });
    const auto of_recompilation = count([](const Action& action) {
      return std::holds_alternative<RepublishPlan>(action) || std::holds_alternative<ContinueWindow>(action);
    });
    const bool may_change = std::holds_alternative<BytesSeen>(input) || std::holds_alternative<OverrideBytes>(input) ||
                            std::holds_alternative<EditRepeated>(input) || std::holds_alternative<LimitReached>(input);
    MUST(of_edit <= (may_change ? 1 : 0));
    const auto pauses = count([](const Action& action) { return std::holds_alternative<SetPause>(action); });
    MUST(pauses == (std::holds_alternative<PauseRequested>(input) ? static_cast<int>(actions.size()) : 0));
    const bool resamples = std::holds_alternative<Resampled>(input);
    MUST(of_recompilation <= (std::holds_alternative<Recompiled>(input) ? 2 : resamples ? 1 : 0));
    const bool our_own = std::holds_alternative<WroteBack>(input) || std::holds_alternative<FoundEdited>(input);
    if (our_own) MUST(actions.empty());
    for (const Action& action : actions) {
      if (const auto* order = std::get_if<PublishPlan>(&action)) MUST(order->plan_id == next++);
      if (const auto* order = std::get_if<RepublishPlan>(&action)) MUST(order->plan_id == next++);
      if (const auto* order = std::get_if<ContinueWindow>(&action)) MUST(order->plan_id == next++);
      if (const auto* order = std::get_if<WriteBack>(&action)) CheckWriteBack(*order);
    }
    MUST(state_.next_plan_id == next);
  }

  void CheckWriteBack(const WriteBack& order) const {
    MUST(state_.dynamic);
    MUST((order.base_sha256 == state_.seen && !state_.in_file));
    MUST((!state_.window && !state_.armed && state_.draining.empty() && !state_.lost));
    if (order.plan_id == 0) {
      const bool is_done = done_.count(order.base_sha256) == 1;
      MUST((is_done || texts_.at(order.base_sha256).intent == EditIntent::kEmpty));
    } else {
      MUST(complete_.count(order.plan_id) == 1);
      MUST(plans_.at(order.plan_id).name == order.base_sha256);
    }
  }

  template <class Report>
  void Perform(const Report&) {}
  void Perform(const PublishPlan& order) {
    plans_[order.plan_id] = texts_.at(state_.published.back().sha256);
    slot_ = Pending{order.plan_id, step_ + (state_.dynamic ? 1 : 0), {}, false};
  }
  void Perform(const RepublishPlan& order) { Perform(PublishPlan{order.plan_id}); }
  void Perform(const ContinueWindow& order) {
    plans_[order.plan_id] = texts_.at(state_.window->sha256);
    continuation_ = order.plan_id;
  }
  void Perform(const ReportSuperseded& superseded) {
    MUST(superseded.plan_id != newest_begun_);
    MUST(superseded_.insert(superseded.plan_id).second);
  }
  void Perform(const SetPause& order) { pause_asked_ = order; }
  void Perform(const PublishStop& order) { slot_ = Pending{0, step_ + 1, order.reason, false}; }
  void Perform(const LookAgain&) {
    passed_on_.clear();
    MUST(state_.in_file);
  }
  void Perform(const WriteBack& order) {
    ordered_.push_back({order, version_});
    if (!files_are_slow_) FinishWriteBack();
  }

  MachineState state_;
  std::optional<Text> file_;
  std::string passed_on_;
  std::map<std::string, Text> texts_;
  int64_t step_;
  std::optional<Pending> slot_;
  std::optional<PlanId> continuation_;
  std::optional<SetPause> pause_asked_;
  PlanId newest_begun_ = 0;
  std::optional<Window> window_;
  std::deque<Input> board_;
  std::map<PlanId, Text> plans_;
  std::set<PlanId> complete_;
  std::set<std::string> done_;  // texts that an earlier start of the job had done
  std::set<PlanId> superseded_;
  std::vector<CollectedStep> collected_;
  std::vector<Action> actions_;
  int write_backs_ = 0;
  bool files_are_slow_ = false;
  bool is_protected_ = false;
  std::deque<std::pair<WriteBack, int>> ordered_;  // and what the looks had found by then
  std::string found_;                              // by the last look
  int version_ = 0;                                // of that
  std::string history_;
};

}  // namespace stepwatch::reload
