// Drives the reload state machine: looks at the file, parses, compiles, publishes plans to the step thread, writes
// back, and tells what happened. Everything here runs on the loop thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "controller/reload/config_writer.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/file_queue.h"
#include "controller/reload/machine.h"
#include "controller/reload/run_journal.h"
#include "controller/watch/watcher.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/drain/drain.h"
#include "src/drain/status_board.h"
#include "src/sinks/format_sink.h"
#include "src/step/data_plane.h"
#include "src/step/pending_plan.h"
#include "stepwatch/event.h"
#include "stepwatch/options.h"

namespace stepwatch::reload {

// What a call of the step thread between two edits has led to; for the step thread to apply.
struct Replanned {
  Status status;
  std::unique_ptr<step::PendingPlan> continuation;      // continues the window in force; null: nothing is to change
  std::unique_ptr<const step::MovedHooks> moved_hooks;  // of the plan in force, for the rest of the running step; null:
                                                        // the model has not grown in a step
};

class Reloader {
 public:
  struct Parts {
    boost::asio::io_context* loop = nullptr;
    step::DataPlane* data_plane = nullptr;
    drain::Drain* drain = nullptr;
    drain::StatusBoard* board = nullptr;
    base::IoExecutor* io = nullptr;         // touches the config
    base::IoExecutor* output_io = nullptr;  // touches what is written beside the rows
    base::FileSystem* files = &base::FileSystem::Real();
  };

  // `options` normalised; `dynamic` decided. `tell` receives every event, on the loop thread.
  Reloader(const Options& options, bool dynamic, Parts parts, std::function<void(Event)> tell);
  ~Reloader();

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
  RefreshOutcome outcome() const { return outcome_; }
  bool settled() const { return looked() && !undecided() && !is_recording(); }
  // The looks that Attach and Refresh have begun are over, and it is known where the output goes.
  bool looked() const { return looks_awaited_ == 0 && !journal_.is_fixing_directory(); }
  // No call on a file is under way but those of looks.
  bool written() const { return config_work_.idle() && output_work_.idle() && journal_.settled(); }
  // What became of every plan that has ended is written down, and acted upon.
  bool recorded() const { return journal_.settled(); }
  // Takes what the drain has posted.
  void OnBoard();
  void StopWatching();
  // Of a job with a store: takes part in it. In dynamic mode Attach does it.
  void JoinRanks();
  bool knows_run_id() const;
  // At which an edit is to be applied that is not decided on; -1: none. Any thread.
  int64_t proposed_step() const { return proposed_step_.load(std::memory_order_relaxed); }
  void PublishStructure(std::string json) { journal_.PublishStructure(std::move(json)); }
  void PublishStacks(std::vector<std::pair<std::string, std::string>> rows) { journal_.PublishStacks(std::move(rows)); }

  RunState state() const;
  // Why the newest edit is not taken over, although it is tried; empty: it is.
  const std::string& fault() const { return fault_; }
  // Nothing is armed, collecting or draining.
  bool quiet() const { return !state_.armed && !state_.window && state_.draining.empty(); }
  const std::string& output_dir() const { return journal_.directory(); }
  std::string watch_mode() const { return watcher_ ? watcher_->mode() : "off"; }

 private:
  class Ranks;  // this rank's part in a job of several
  friend class Ranks;

  // Changes a config; false: it is as wanted. Empty: the plan is left as it is.
  using Change = std::function<bool(config::Config*)>;

  void LookNow();
  // A window has ended, and that is being written down or back.
  bool is_recording() const { return config_writer_.busy() || !journal_.settled(); }
  bool undecided() const;  // the ranks have not decided on an edit
  Status AttachFirst();
  Replanned AttachAgain();
  void LearnWhatBegan();
  PlanId InForce() const;
  bool IsAboutToBeReplaced() const;
  static bool CompileAnew(config::Config*) { return true; }
  Replanned Replan(const Change& of_plan_in_force, const Change& of_armed_plan);
  std::optional<Edit> Changed(PlanId plan_id, const Change& change) const;
  void Renumber(PlanId next_plan_id);
  void OnLook(const watch::FileSnapshot& snapshot);
  // What the file holds could not be taken over, and is tried again.
  void TellFault(const std::string& what);
  void EndFault();
  // Takes the input in, and performs what follows; a throw leaves the state as it was.
  void Feed(const Input& input);
  // What is only told: nothing fails because of it.
  template <class Report>
  static void Quietly(Report report) noexcept {
    try {
      report();
    } catch (...) {  // no memory for an event: what it tells of has happened all the same
    }
  }

  void Perform(const ReportSeen&);
  void Perform(const ReportRefused&);
  void Perform(const ReportLost& lost);
  void Perform(const ReportRestored&);
  void Perform(const ReportStopping&);
  void Perform(const ReportSuperseded& superseded);
  void Perform(const PublishPlan& order);
  void Perform(const RepublishPlan& order);
  void Perform(const ContinueWindow& order);
  void Perform(const PublishStop&);
  void Perform(const WriteBack& order);

  void WriteBackHere(const WriteBack& order);
  void OnWroteBack(const WriteBack& order, const writeback::WriteBackResult& result);
  void RetryWriteBack(const WriteBack& order, const std::string& why);
  void TellDisplaced(const ConfigWriter::Finding& finding);

  void TakeEntries();
  void OnEntry(const drain::PlanBegan& entry);
  void OnEntry(const drain::PlanFinished& entry);
  void OnEntry(const drain::PlanDrained& entry);
  void OnEntry(const drain::SinkFailed& entry);
  void OnEntry(const drain::SinkRecovered&);
  void OnEntry(const drain::AlarmsRaised& entry);
  void OnEntry(const drain::AnomalyFileFailed& entry);
  void OnEntry(const drain::AnomalyFileRecovered&);

  using Effect = std::variant<step::NewWindow, step::Continue, step::Stop>;
  std::unique_ptr<step::PendingPlan> MakePending(std::shared_ptr<const plan::Plan> plan, Effect effect) const;
  // For the window of a plan that no rank but this one decides on.
  step::NewWindow OwnWindow() const;
  std::unique_ptr<step::PendingPlan> PendingOf(PlanId plan_id);
  // The plan waits in the slot from now on, for plan->at_step. Takes the plan unless it throws.
  void Arm(std::unique_ptr<step::PendingPlan>&& plan);
  void TellArmed(const plan::Plan& plan, const std::string& when);
  void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan);
  void DiscardOldSources();
  void TidySlot();
  void Supersede(std::unique_ptr<step::PendingPlan> old);
  void TellSuperseded(PlanId plan_id, const char* why);
  void Warn(const std::vector<config::Warning>& warnings);
  void PrepareOutput(const plan::Plan& plan);
  void Tell(EventKind kind, std::string message, PlanId plan_id = 0);
  void Tell(Event event);

  const Options options_;
  const bool dynamic_;
  const Parts parts_;
  const std::function<void(Event)> tell_;

  EditPipeline pipeline_;
  bool attached_ = false;
  MachineState state_;
  Edit current_;                                         // what the bytes seen last became
  std::map<PlanId, Edit> sources_;                       // what the plans came from that wait or are in force
  std::unique_ptr<step::PendingPlan> continuation_;      // made by the call under way
  std::string look_error_;                               // of the last look that found no bytes
  RefreshOutcome outcome_ = RefreshOutcome::kUnchanged;  // of the look under way
  std::set<std::string> said_;                           // keys whose "not effective" has been told
  std::shared_ptr<sinks::FormatSink> output_;            // from the first plan on
  std::string fault_;
  bool knows_run_id_ = false;
  std::atomic<int64_t> proposed_step_{-1};
  int looks_awaited_ = 0;
  std::vector<drain::BoardEntry> entries_;  // of the board, from next_entry_ on not taken in
  size_t next_entry_ = 0;
  boost::asio::steady_timer board_timer_;  // takes them in that found no memory
  std::unique_ptr<watch::Watcher> watcher_;
  FileQueue config_work_;
  FileQueue output_work_;
  ConfigWriter config_writer_;
  RunJournal journal_;
  std::unique_ptr<Ranks> ranks_;  // null: this process decides alone
};

}  // namespace stepwatch::reload
