// Decides when a snapshot of the file has been stable for long enough to be passed on. Pure: looks and times in, a
// verdict out.
//
// An editor that saves in place writes a file in pieces, and a look can fall between two of them. So each new snapshot
// is first a candidate. It is passed on when
//   1. every look since then, over at least the quiet time, saw the same;
//   2. the file was not touched in between (equal stamps), unless stamps keep changing for `rest_max`;
//   3. bytes that do not parse as JSON rested for the longer half-written time.
// Missing and unreadable files settle in the same way: a file deleted and written again within the quiet time counts as
// always present.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "controller/watch/file_snapshot.h"

namespace stepwatch::watch {

struct SettleTimes {
  std::chrono::milliseconds quiet{100};
  std::chrono::milliseconds half_written{500};
  // Equal bytes at every look for this long are passed on even if stamps keep changing (a program that touches the
  // file).
  std::chrono::milliseconds rest_max{1000};
  // Delay of the next look after one at a file that was being written.
  std::chrono::milliseconds retry{10};
};

class Debouncer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using LooksWhole = std::function<bool(const std::string& bytes)>;

  struct SettleDecision {
    bool pass_on = false;         // pass on this very snapshot
    std::optional<Time> look_at;  // time of the next look that is needed; none: no candidate is pending
  };

  Debouncer(SettleTimes times, LooksWhole looks_whole);

  SettleDecision OnLook(const FileSnapshot& snapshot, Time now);
  // For an owner that waits: passes a stable look at something new on at once.
  SettleDecision OnImpatientLook(const FileSnapshot& snapshot, Time now);
  // Treats these bytes as already passed on.
  void SetKnown(const std::string& sha256);
  // Forgets which snapshot was passed on last.
  void Reopen() noexcept;

 private:
  struct Candidate {
    std::string identity;
    FileStamp stamp;
    Time seen_since;       // same identity at every look since then
    Time untouched_since;  // same stamp as well since then
    std::optional<bool> whole;
  };

  SettleDecision PassOn(std::string identity);
  std::chrono::milliseconds RestNeeded(const FileSnapshot& snapshot);

  const SettleTimes times_;
  const LooksWhole looks_whole_;
  std::string passed_on_;  // identity of the last one passed on; empty: none yet
  std::optional<Candidate> candidate_;
};

}  // namespace stepwatch::watch
