// Loads edits of the config file into a running job: makes the parts that look at the file, control the plans, agree
// with the other ranks and report, and connects them. Runs on the loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/journal/edit_history.h"
#include "controller/journal/file_queue.h"
#include "controller/journal/run_journal.h"
#include "controller/reload/agreed_edits.h"
#include "controller/reload/board_reader.h"
#include "controller/reload/config_file.h"
#include "controller/reload/disk_guard.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/edit_requests.h"
#include "controller/reload/pause_control.h"
#include "controller/reload/plan_agreement.h"
#include "controller/reload/plan_controller.h"
#include "controller/reload/plan_limits.h"
#include "controller/reload/reload_view.h"
#include "controller/reload/replanner.h"
#include "controller/reload/resampler.h"
#include "controller/reload/restart_guard.h"
#include "controller/reload/rotation.h"
#include "controller/reload/row_output.h"
#include "controller/reload/run_mode.h"
#include "controller/watch/timer.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/drain/drain.h"
#include "src/output/run_storage.h"
#include "src/step/data_plane.h"
#include "stepwatch/event.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::reload {

class Reloader {
 public:
  struct Dependencies {
    boost::asio::io_context* loop = nullptr;
    step::DataPlane* data_plane = nullptr;
    drain::Drain* drain = nullptr;
    drain::StatusBoard* board = nullptr;
    base::IoExecutor* io = nullptr;         // works on the config
    base::IoExecutor* output_io = nullptr;  // works on the files beside the rows
    output::RunStorage* storage = nullptr;  // where the output goes
    base::FileSystem* files = &base::FileSystem::Real();
    ask::QuestionHost* question_host = nullptr;  // must outlive this; null: no questions between ranks
    std::function<void()> on_change = nullptr;   // the view has changed, and no event reports it
  };

  // `options` must be normalised, and `dynamic` decided. `emit` receives every event, on the loop thread.
  Reloader(const Options& options, bool dynamic, const Dependencies& dependencies, std::function<void(Event)> emit);

  // The model is known, or has grown. Static mode: publishes the plan for the step about to begin. Dynamic mode: starts
  // watching with a look; a plan that it finds is published for the next boundary. Fails only in static mode. The step
  // thread waits for this call, and for those of the replanner.
  Replanned Attach(SiteIndex sites);
  // Joins the ranks of a job with a store. In dynamic mode Attach does this.
  void JoinRanks();
  // Begins a look. Its result is known once settled() is true; until then the file is read or written back, or the
  // ranks of the job decide on its content.
  void Refresh();
  // Reads the posts of the drain.
  void OnBoard();
  // Called when disk usage crosses a threshold.
  void OnDiskLevel() { disk_.OnLevel(); }
  void StopWatching();

  bool settled() const { return looked() && !controller_.undecided() && recorded() && !file_.writer().busy(); }
  // True if the looks of Attach and Refresh are over, and it is known where the output goes and whether an earlier
  // start of the job has done the window found.
  bool looked() const;
  // No file operation is pending except reads of the config.
  bool written() const { return file_.idle() && output_work_.idle() && journal_.settled(); }
  // True if the end of every ended plan is recorded and has been acted upon.
  bool recorded() const { return journal_.settled(); }
  bool knows_run_id() const { return !agreement_ || agreement_->knows_run_id(); }
  // The step proposed for an undecided edit; -1: none. Any thread.
  int64_t proposed_step() const { return agreement_ ? agreement_->proposed_step() : -1; }
  RunState state() const;
  ReloadView View();

  ConfigFile& file() { return file_; }
  EditRequests& requests() { return requests_; }
  PauseControl& pauses() { return pauses_; }
  Rotation& rotation() { return rotation_; }
  Replanner& replanner() { return replanner_; }
  Resampler& resampler() { return resampler_; }
  const EditReporter& reports() const { return reports_; }
  journal::RunJournal& journal() { return journal_; }
  // Runs work on the files beside the rows, in turn with the writes there.
  journal::FileQueue& output_work() { return output_work_; }
  // Null: no other ranks, or no questions between them.
  ask::Questions* questions() const { return agreement_ ? agreement_->questions() : nullptr; }

 private:
  const Options options_;
  const RunMode mode_;
  const std::function<void()> on_change_;
  const PlanLimits limits_;
  EditPipeline pipeline_;
  std::string run_id_;
  watch::Timer board_timer_;  // for an entry that found no memory
  journal::FileQueue output_work_;
  journal::EditHistory history_;
  journal::RunJournal journal_;
  EditReporter reports_;
  RowOutput output_;
  PlanController controller_;
  AgreedEdits edits_;
  RestartGuard restart_;
  Resampler resampler_;
  Replanner replanner_;
  PauseControl pauses_;
  Rotation rotation_;
  DiskGuard disk_;
  ConfigFile file_;
  EditRequests requests_;
  BoardReader board_reader_;
  std::unique_ptr<PlanAgreement> agreement_;  // null: this process decides alone
};

}  // namespace stepwatch::reload
