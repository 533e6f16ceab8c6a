// "on_restart": "once": a window that an earlier start of this job has done, and that the file still requests because
// it could not be written back, begins again only when a client requests it. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/journal/edit_history.h"
#include "controller/journal/file_queue.h"
#include "controller/journal/run_journal.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/plan_controller.h"
#include "src/output/history.h"
#include "stepwatch/options.h"

namespace stepwatch::reload {

class RestartGuard {
 public:
  // All of them must outlive the guard.
  struct Dependencies {
    PlanController* controller = nullptr;
    EditPipeline* pipeline = nullptr;
    EditReporter* reports = nullptr;
    journal::RunJournal* journal = nullptr;
    journal::EditHistory* history = nullptr;
    journal::FileQueue* output_work = nullptr;
    std::function<void()> look_again;  // at the file, whatever it holds
    std::function<void()> on_answer;   // the histories were read, and the edit was fed; may be empty
  };

  RestartGuard(const Options& options, Dependencies dependencies);

  // The current edit has "on_restart": "once".
  bool IsOnce() const;
  // True if an earlier start of the job may have done the window of the current edit. Only the first bytes that a
  // process sees can be those of an earlier start: later ones were saved since.
  bool MayBeDone(EditIntent intent);
  // The hash of the first usable bytes; empty: none read yet.
  const std::string& first_seen() const { return first_seen_; }
  // Reads the histories on the executor, then feeds the current edit.
  void ReadHistories();
  bool is_reading() const { return reading_ != nullptr; }
  // The file is looked at again: the histories no longer matter.
  void DropReading() { reading_.reset(); }

  // Begins the window of the file, which is over or was not begun, because a client requests it. False: no such window.
  bool BeginAgain(const std::string& sha256, const output::EditPeer& peer);
  // The machine does not begin the window of the current edit.
  void ReportNotBegun();
  // The reason why the window of the file is not begun; empty: it is begun.
  const std::string& not_begun() const { return not_begun_; }
  void ClearNotBegun() noexcept { not_begun_.clear(); }
  // The plan of a new window is about to be submitted.
  void OnNewWindow(const plan::Plan& plan) noexcept;
  // Warns once if a restart cannot detect that this window was done.
  void WarnIfForgotten(const plan::Plan& plan);

 private:
  // A read of the histories in progress.
  struct Reading {
    bool is_begun_anyway = false;  // a client has requested the window
  };

  // The reason why no restart can detect the windows that this run has done; empty: it can.
  std::string WhyNotRemembered() const;
  void OnHistories(const Result<std::optional<output::HistoryLine>>& done);

  const Options& options_;
  PlanController* const controller_;
  EditPipeline* const pipeline_;
  EditReporter* const reports_;
  journal::RunJournal* const journal_;
  journal::EditHistory* const history_;
  journal::FileQueue* const output_work_;
  const std::function<void()> look_again_;
  const std::function<void()> on_answer_;
  std::shared_ptr<Reading> reading_;  // null: no read that matters
  std::string first_seen_;
  output::HistoryLine done_before_;  // the end of the window that is not begun again
  std::string not_begun_;
};

}  // namespace stepwatch::reload
