// Feeds the posts of the drain to the state machine, and records them as events, in manifest and history. Loop thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "controller/journal/edit_history.h"
#include "controller/journal/run_journal.h"
#include "controller/reload/machine.h"
#include "src/drain/status_board.h"
#include "stepwatch/event.h"

namespace stepwatch::reload {

class BoardReader {
 public:
  // The board, the journal and the history must outlive the reader.
  BoardReader(drain::StatusBoard* board, journal::RunJournal* journal, journal::EditHistory* history,
              std::function<void(const Input&)> feed, std::function<void(const drain::SegmentBegun&)> on_segment,
              std::function<void(Event)> emit)
      : board_(board),
        journal_(journal),
        history_(history),
        feed_(std::move(feed)),
        on_segment_(std::move(on_segment)),
        emit_(std::move(emit)) {}

  // Reads all entries. An entry for which the machine has no memory stays, with all later ones, for the next call.
  void Read();

 private:
  void OnEntry(const drain::PlanBegan& entry);
  void OnEntry(const drain::PlanFinished& entry);
  void OnEntry(const drain::PlanDrained& entry);
  void OnEntry(const drain::SinkFailed& entry);
  void OnEntry(const drain::SinkRecovered&);
  void OnEntry(const drain::AlarmsRaised& entry);
  void OnEntry(const drain::AnomalyFileFailed& entry);
  void OnEntry(const drain::AnomalyFileRecovered&);
  void OnEntry(const drain::PlanPaused& entry);
  void OnEntry(const drain::SegmentBegun& entry);
  template <class Change>
  void Note(PlanId plan_id, const Change& change) noexcept;
  void Emit(EventKind kind, std::string message);

  drain::StatusBoard* const board_;
  journal::RunJournal* const journal_;
  journal::EditHistory* const history_;
  const std::function<void(const Input&)> feed_;
  const std::function<void(const drain::SegmentBegun&)> on_segment_;
  const std::function<void(Event)> emit_;
  std::vector<drain::BoardEntry> entries_;  // not processed from next_entry_ on
  size_t next_entry_ = 0;
};

}  // namespace stepwatch::reload
