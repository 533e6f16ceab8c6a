// What somebody asks of the run itself, beside the config file, and what comes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

// The window in force is to pause, or to go on.
struct PauseVerdict {
  enum class Outcome : uint8_t {
    kAsked,          // it does at the next boundary
    kUnchanged,      // it is so already
    kNotCollecting,  // there is no window
    kEnding,         // the window ends, or another plan takes its place, at the next boundary
    kRanks,          // the ranks of a job collect the same steps, and cannot agree on one: the mode is static
  };
  Outcome outcome = Outcome::kAsked;
  PlanId plan_id = 0;      // in force
  bool is_agreed = false;  // it holds for all ranks of a job, from the step that they agree on
};

// What was recorded so far is to be closed.
struct CutVerdict {
  enum class Outcome : uint8_t {
    kAsked,          // the next boundary begins the segment
    kUnderWay,       // another one is about to begin
    kNotCollecting,  // there is no window: the files of the last one are closed, or about to be
  };
  Outcome outcome = Outcome::kAsked;
  int64_t segment = 0;  // that is to begin
};

// The newest segment that has begun, and the one before it, which is closed.
struct SegmentView {
  int64_t segment = 1;
  int64_t last_step = -1;          // of the one before it; -1: no cut came, the plan had ended and its files are closed
  std::vector<std::string> files;  // of the one before it: those that were open
};

// Bytes are to run although the config file cannot be changed.
struct GivenVerdict {
  enum class Outcome : uint8_t {
    kTaken,      // as an edit of the file with these bytes would be
    kUnchanged,  // they run already, or wait for their step
    kRefused,    // they are unusable: `refusal`
    kStatic,     // the mode is static: what runs is not changed by anybody
    kNotReader,  // another rank of the job reads the config
  };
  Outcome outcome = Outcome::kTaken;
  std::string sha256;
  Status refusal;
};

}  // namespace stepwatch::reload
