// Decides when what a look saw has rested long enough to be passed on. Pure: looks and times in, a verdict out.
//
// Somebody who saves in place writes a file in pieces, and a look can fall between two of them. So what was seen is a
// candidate first. It is passed on when
//   1. every look since then, over at least the quiet time, saw the same;
//   2. nobody touched the file in between (equal stamps), as far as that can be had within `rest_max`;
//   3. bytes that do not even parse as JSON rested for the longer half-written time.
// Missing and unreadable rest in the same way: a file deleted and written again within the quiet time was never gone.
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
  // Same bytes at every look for this long are passed on even if stamps kept changing (a program that touches the
  // file).
  std::chrono::milliseconds rest_max{1000};
  // After a look at a file that was being written.
  std::chrono::milliseconds retry{10};
};

class Debouncer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using LooksWhole = std::function<bool(const std::string& bytes)>;

  struct SettleDecision {
    bool pass_on = false;         // this very look
    std::optional<Time> look_at;  // a look is needed at that time; none: nothing is pending
  };

  Debouncer(SettleTimes times, LooksWhole looks_whole);

  SettleDecision OnLook(const FileSnapshot& snapshot, Time now);
  // The owner wants to know now: a stable look at something new is passed on at once.
  SettleDecision OnImpatientLook(const FileSnapshot& snapshot, Time now);
  // As if these bytes had been passed on.
  void SetKnown(const std::string& sha256);
  // As if nothing had been passed on yet.
  void Reopen() noexcept;

 private:
  struct Candidate {
    std::string identity;
    FileStamp stamp;
    Time seen_since;       // same identity at every look since
    Time untouched_since;  // same stamp as well
    std::optional<bool> whole;
  };

  SettleDecision PassOn(std::string identity);
  std::chrono::milliseconds RestNeeded(const FileSnapshot& snapshot);

  const SettleTimes times_;
  const LooksWhole looks_whole_;
  std::string passed_on_;  // identity of what was passed on last; empty: nothing yet
  std::optional<Candidate> candidate_;
};

}  // namespace stepwatch::watch
