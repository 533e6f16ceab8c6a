// The destination of rows: the sinks of a run, which are made when the first plan needs them. Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "controller/journal/run_journal.h"
#include "src/drain/drain.h"
#include "src/output/run_storage.h"
#include "src/plan/plan.h"
#include "src/sinks/format_sink.h"
#include "stepwatch/options.h"

namespace stepwatch::reload {

class RowOutput {
 public:
  // All of them must outlive the output.
  RowOutput(const Options& options, output::RunStorage* storage, drain::Drain* drain, journal::RunJournal* journal)
      : options_(options), storage_(storage), drain_(drain), journal_(journal) {}

  // Rows of the plan can be written from now on.
  void Prepare(const plan::Plan& plan);
  // The directory of the run is fixed. Only after Prepare.
  void SetDirectory(const std::string& directory) { sink_->SetDirectory(directory); }

 private:
  const Options& options_;
  output::RunStorage* const storage_;
  drain::Drain* const drain_;
  journal::RunJournal* const journal_;
  std::shared_ptr<sinks::FormatSink> sink_;  // null: no plan has needed it yet
};

}  // namespace stepwatch::reload
