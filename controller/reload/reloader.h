// Drives the reload state machine: looks at the file, parses, compiles, publishes plans to the step thread, writes
// back, and tells what happened. Everything here runs on the loop thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/reload/board_reader.h"
#include "controller/reload/budget_keeper.h"
#include "controller/reload/config_writer.h"
#include "controller/reload/edit_history.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/file_queue.h"
#include "controller/reload/job_budget.h"
#include "controller/reload/motion.h"
#include "controller/reload/ordered_edit.h"
#include "controller/reload/plan_agreement.h"
#include "controller/reload/plan_limits.h"
#include "controller/reload/plan_registry.h"
#include "controller/reload/reload_view.h"
#include "controller/reload/run_journal.h"
#include "controller/watch/timer.h"
#include "controller/watch/watcher.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/drain/drain.h"
#include "src/output/run_storage.h"
#include "src/sinks/format_sink.h"
#include "src/step/data_plane.h"
#include "stepwatch/event.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::reload {

// What a call of the step thread between two edits has led to; for the step thread to apply.
struct Replanned {
  Status status;
  std::unique_ptr<step::PendingPlan> continuation;      // continues the window in force; null: nothing is to change
  std::unique_ptr<const step::MovedHooks> moved_hooks;  // of the plan in force, for the rest of the running step; null:
                                                        // the model has not grown in a step
};

class Reloader final : private PlanAgreement::Owner {
 public:
  struct Parts {
    boost::asio::io_context* loop = nullptr;
    step::DataPlane* data_plane = nullptr;
    drain::Drain* drain = nullptr;
    drain::StatusBoard* board = nullptr;
    base::IoExecutor* io = nullptr;         // touches the config
    base::IoExecutor* output_io = nullptr;  // touches what is written beside the rows
    output::RunStorage* storage = nullptr;  // where the output goes
    base::FileSystem* files = &base::FileSystem::Real();
    agree::QuestionHost* question_host = nullptr;  // outlives the reloader; null: the ranks ask each other nothing
    std::function<void()> on_change = nullptr;     // View says something else, and no event tells of it
  };

  // `options` normalised; `dynamic` decided. `tell` receives every event, on the loop thread.
  Reloader(const Options& options, bool dynamic, Parts parts, std::function<void(Event)> tell);

  // Static mode: reads and parses the file once; its refusal is the error.
  Status ReadOnce();
  // The model is known, or has grown. Static mode: publishes the plan for the step about to begin. Dynamic mode: starts
  // watching with a look; what it finds is published for the next boundary. Fails only in static mode. The step thread
  // waits for this call, and for the next.
  Replanned Attach(SiteIndex sites);
  // See Monitor::Amend.
  Replanned Amend(const Amendment& amendment);
  // The step thread does not take this: it has stopped waiting.
  void Discard(const Replanned& replanned);
  // Begins a look. What it found is known when settled() is true; until then the file is read or written back, or the
  // ranks of the job decide on what it holds.
  void Refresh();
  // Changes the config file as ordered, looks at it at once, and calls `then` when it is known what became of that,
  // with the verdict of this process as far as it is known within a second. In dynamic mode. StopWatching discards
  // `then`. Throws, with nothing done, as FileQueue::Do does.
  using OnOrdered = std::function<void(const OrderOutcome&)>;
  void Order(const std::shared_ptr<const EditOrder>& order, OnOrdered then);
  // Does something with the files beside the rows, in turn with what is written there. See FileQueue::Do.
  void OnOutputFiles(FileQueue::Work work, FileQueue::Then then) { output_work_.Do(std::move(work), std::move(then)); }
  // From the next boundary on the window in force collects nothing, keeping its count, or collects again. In a job of
  // ranks: on all of them, from the step that they agree on.
  PauseVerdict Pause(bool pause);
  // Closes the files with what was collected up to the next boundary; what comes goes to new ones. Known to be done
  // when View().segment is that of the verdict.
  CutVerdict Rotate();
  // Takes bytes over as if the file held them, until the file changes. The file is left alone, also at the window's
  // end. `peer` gives them. `on_taken` hears the hash of usable bytes before anything is told of them. `at_step`: as
  // EditOrder::at_step.
  GivenVerdict Give(const std::string& text, const std::optional<output::EditPeer>& peer = std::nullopt,
                    const std::function<void(const std::string& sha256)>& on_taken = {}, int64_t at_step = 0);
  RefreshOutcome outcome() const { return outcome_; }
  bool settled() const { return looked() && !undecided() && !is_recording(); }
  // The looks that Attach and Refresh have begun are over, and it is known where the output goes and whether an earlier
  // start of the job has done what was found.
  bool looked() const { return looks_awaited_ == 0 && !journal_.is_fixing_directory() && !restart_question_; }
  // No call on a file is under way but those of looks.
  bool written() const { return config_work_.idle() && output_work_.idle() && journal_.settled(); }
  // What became of every plan that has ended is written down, and acted upon.
  bool recorded() const { return journal_.settled(); }
  // Takes what the drain has posted.
  void OnBoard();
  // More of Limits::bytes_max is used than before.
  void OnDiskLevel();
  void StopWatching();
  // Joins the ranks of a job that has a store. In dynamic mode Attach does it.
  void JoinRanks();
  bool knows_run_id() const { return !agreement_ || agreement_->knows_run_id(); }
  // The step for which an edit is proposed that is not decided on; -1: none. Any thread.
  int64_t proposed_step() const { return agreement_ ? agreement_->proposed_step() : -1; }
  void PublishStructure(std::vector<ModuleStructure> modules) { journal_.PublishStructure(std::move(modules)); }
  void PublishStacks(std::vector<std::pair<std::string, std::string>> rows) { journal_.PublishStacks(std::move(rows)); }

  RunState state() const;
  // Why the newest edit is not taken over, although it is tried; empty: it is.
  const std::string& fault() const { return fault_; }
  const std::string& output_dir() const { return journal_.directory(); }
  ReloadView View();
  // Builds what the file's bytes would lead to if they were these, and throws it away.
  EditTrial Try(const std::string& text);
  // What this rank wants of the budget of its window, which rank 0 asks about.
  BudgetWish AnswerBudget(const BudgetQuestion& question);
  // Null: there are no other ranks, or they are asked nothing.
  agree::Questions* questions() const { return agreement_ ? agreement_->questions() : nullptr; }
  // At the file, and edits that were refused. Any thread.
  uint64_t looks(watch::LookCause cause) const { return looks_[static_cast<size_t>(cause)]; }
  uint64_t refusals(RefusalReason reason) const { return refusals_[static_cast<size_t>(reason)]; }

 private:
  // Changes a config; false: it is as wanted. Empty: the plan is left as it is.
  using Change = std::function<bool(config::Config*)>;

  void LookNow();
  void OrderGiven(const EditOrder& order, const OnOrdered& then);
  void TryOrder(const std::shared_ptr<const EditOrder>& order, OnOrdered then, int number);
  void OnOrderWritten(const EditOrder& order, const std::shared_ptr<OrderOutcome>& outcome, const OnOrdered& then);
  void AwaitVerdict(const std::shared_ptr<OrderOutcome>& outcome, const OnOrdered& then, const std::string& seen_before,
                    std::chrono::steady_clock::time_point deadline);
  // On these bytes, which were put in the file when others had been seen last.
  Verdict VerdictOn(const std::string& sha256, const std::string& seen_before) const;
  // The step that bytes which are seen were ordered for; 0: none.
  int64_t StepOrdered(const std::string& sha256);
  PauseVerdict::Outcome PauseRanks(bool pause);
  bool ArmedWaits() const;
  void StopIfDiskUsedUp();
  // An edit takes effect when the ranks have agreed on it.
  bool agrees() const { return agreement_ && dynamic_; }
  bool undecided() const { return agreement_ && agreement_->undecided(); }
  // A window has ended, and that is being written down or back.
  bool is_recording() const { return config_writer_.busy() || !journal_.settled(); }
  std::optional<PlanView> ViewOf(PlanId plan_id) const;
  std::shared_ptr<const config::Config> ConfigInFile();
  Status AttachFirst();
  void MakeWatcher();
  Replanned AttachAgain();
  void LearnWhatBegan();
  PlanId InForce() const;
  bool IsAboutToBeReplaced() const;
  // What becomes of a plan that goes beyond a limit of the run; `over_limit` says which.
  enum class OverLimit : uint8_t { kRefused, kAllowed };
  Replanned Replan(const Change& of_plan_in_force, const Change& of_armed_plan, OverLimit over, Status* over_limit);
  void KeepBudget();
  bool MayResample(PlanId plan_id) const;
  void Resample(PlanId plan_id, const SamplingGovernor::Decision& decision);
  // Rank 0 of a job: asks all ranks if it is time, for this plan.
  void AskForWishes(PlanId plan_id);
  void OnWishes(PlanId plan_id, const std::vector<agree::RankAnswer>& answers);
  // The window that came from these bytes, unless it is about to end; null: there is none.
  const MachinePlan* WindowFrom(const std::string& sha256) const;
  // What the ranks have agreed on waits in the slot, or does as soon as nothing else continues the window.
  void ArmAgreed();
  PlanId IdForAgreed() const;
  void TellAgreed(const std::string& text, bool is_first);
  // A plan that continues the window, by this input, waits in the slot.
  void PutContinuation(const Input& input, const Edit& edit, int64_t at_step);
  // Something newer comes: a plan that the budget has put into the slot does not begin, if it has not yet.
  void WithdrawResampled();
  std::optional<Edit> Changed(PlanId plan_id, const Change& change) const;
  void OnLook(const watch::FileSnapshot& snapshot);
  bool IsOnce() const;
  // Why no restart can know what this one has done; empty: it can.
  std::string WhyNotRemembered() const;
  void WarnIfForgotten(const plan::Plan& plan);
  bool MayBeDone(const watch::FileSnapshot& snapshot, EditIntent intent);
  // Finds out whether an earlier start of the job has done what `current_` asks for, and takes it in then.
  void AskHistory();
  void OnHistory(const Result<std::optional<output::HistoryLine>>& done);
  // Begins what the file asks for, which is over or was not begun, because somebody asks for it. False: there is no
  // such thing.
  bool BeginAgain(const std::string& sha256, const output::EditPeer& peer);
  // Takes the input in, and performs what follows; a throw leaves the state as it was.
  void Feed(const Input& input);
  void Perform(const ReportSeen&);
  void Perform(const ReportRefused&);
  void Perform(const ReportNotBegun&);
  void Perform(const ReportLost& lost);
  void Perform(const ReportRestored&);
  void Perform(const ReportStopping&);
  void Perform(const ReportSuperseded& superseded);
  void Perform(const PublishPlan& action);
  void Perform(const RepublishPlan& action);
  void Perform(const ContinueWindow& action);
  void Perform(const PublishStop& action);
  void Perform(const SetPause& action);
  void Perform(const WriteBack& action);

  void OnWroteBack(const WriteBack& action, const writeback::WriteBackResult& result);
  void RetryWriteBack(const WriteBack& action, const std::string& why);
  void TellDisplaced(const ConfigWriter::Finding& finding);

  void OnSegment(const drain::SegmentBegun& begun);
  void EndRotation();
  std::unique_ptr<step::PendingPlan> PendingOf(PlanId plan_id);
  void PrepareOutput(const plan::Plan& plan);
  void TellSuperseded(PlanId plan_id, const char* why);
  void Warn(const std::vector<config::Warning>& warnings);
  void Tell(EventKind kind, std::string message, PlanId plan_id = 0) override;
  void Tell(Event event) { tell_(std::move(event)); }

  // PlanAgreement::Owner
  PlanId next_plan_id() const override { return state_.next_plan_id; }
  PlanAgreement::BuiltEdit Build(const agree::Change& change, PlanId plan_id) override;
  void TakeAgreed(const Edit& edit, PlanId plan_id) override;
  void TakeRejection(const agree::Change& change, const agree::Decision& decision) override;
  void TakePause(bool pause, int64_t at_step) override;
  Status TrySampling(const agree::Change& change) override;
  void TakeSampling(const agree::Change& change, int64_t at_step) override;
  void TakeSamplingRejection(const agree::Decision& decision) override;
  void Renumber(PlanId next_plan_id) override;
  void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) override;
  void TellArmed(const plan::Plan& plan, const std::string& when) noexcept override;
  void WriteBackNow(const WriteBack& action) override;
  void JoinRun(const std::string& run_id) override;
  // What the file holds could not be taken over, and is tried again.
  void TellFault(const std::string& what) override;
  void EndFault() override;

  const Options options_;
  const bool dynamic_;
  const Parts parts_;
  const std::function<void(Event)> tell_;

  const PlanLimits limits_;
  EditPipeline pipeline_;
  std::string run_id_;
  bool attached_ = false;
  bool is_stopped_ = false;
  MachineState state_;
  Edit current_;  // what the bytes seen last became
  struct {
    std::string read, seen;  // the hashes of `current_` and of the file
    std::shared_ptr<const config::Config> config;
  } in_file_;  // made by ConfigInFile for these
  // The look at the histories that is under way.
  struct RestartQuestion {
    bool is_asked_for = false;  // somebody wants the bytes to begin, whatever the answer is
  };
  std::shared_ptr<RestartQuestion> restart_question_;  // null: there is none, or it does not matter any more
  std::string first_seen_;                             // the hash of the first usable bytes
  output::HistoryLine done_before_;                    // the end of the window that is not begun again
  std::string not_begun_;                              // why what the file asks for is not begun; empty: it is
  PlanRegistry plans_;
  std::unique_ptr<step::PendingPlan> continuation_;      // made by the call under way
  std::string look_error_;                               // of the last look that found no bytes
  RefreshOutcome outcome_ = RefreshOutcome::kUnchanged;  // of the look under way
  std::set<std::string> said_;                           // keys whose "not effective" has been told
  std::shared_ptr<sinks::FormatSink> output_;            // from the first plan on
  std::string fault_;
  base::DiskMeter::Level told_disk_level_ = base::DiskMeter::Level::kFree;
  int looks_awaited_ = 0;
  std::array<std::atomic<uint64_t>, watch::kLookCauseCount> looks_{};
  std::array<std::atomic<uint64_t>, kRefusalReasonCount> refusals_{};
  struct {
    PlanId plan_id = 0;
    int64_t at_step = -1;
  } in_slot_;  // the newest that was put there
  BudgetKeeper budget_;
  PlanId resampled_ = 0;  // the newest that the budget has put there; 0: something newer came
  AskingPace asking_pace_;
  // Which the ranks have agreed on, and which has not begun yet.
  struct AgreedSampling {
    JobDecision decision;
    PlanId window = 0;   // the plan that began the window
    PlanId plan_id = 0;  // that all ranks had free
    int64_t at_step = 0;
    PlanId armed = 0;          // the newest plan that was made of it
    bool is_followed = false;  // by the governor
  };
  std::optional<AgreedSampling> agreed_;
  struct {
    std::string sha256;  // of bytes that are about to be in the file, for this step; empty: none
    int64_t at_step = 0;
    bool is_looked_at = false;  // the file was, since they were put there
  } ordered_;
  struct {
    bool pause = false;
    int64_t at_step = -1;
  } pause_agreed_;  // the newest that the ranks have agreed on
  int64_t segment_asked_ = 1;
  SegmentView segment_;
  watch::Timer board_timer_;  // of an entry that found no memory
  std::unique_ptr<watch::Watcher> watcher_;
  FileQueue config_work_;
  FileQueue output_work_;
  ConfigWriter config_writer_;
  EditHistory history_;
  RunJournal journal_;
  BoardReader board_reader_;
  std::unique_ptr<PlanAgreement> agreement_;  // null: this process decides alone
};

}  // namespace stepwatch::reload
