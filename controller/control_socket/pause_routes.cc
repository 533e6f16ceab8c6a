#include "controller/control_socket/pause_routes.h"

#include <nlohmann/json.hpp>

#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::control_socket {
namespace {

// Time to wait for the end of the running step. For a longer step the answer announces the change.
constexpr std::chrono::milliseconds kBoundaryTime{1000};

constexpr const char* kNotCollecting = "no plan is in force";
constexpr const char* kLoopHangs = "the job's loop thread does not answer; the request may still be carried out";

// The request applies only to the ranks of this process.
const char* RanksOf(Job& job) {
  return job.GetStatus().world_size == 1 ? "all" : "this";
}

Json StepOrNull(int64_t step) {
  return step >= 0 ? Json(step) : Json();
}

http::Answer Conflict(const char* code, const std::string& message) {
  return http::ErrorAnswer(409, code, message);
}

http::Answer Pause(Job& job, bool pause) {
  using Outcome = PauseResult::Outcome;
  const PauseResult result = job.Pause(pause, kBoundaryTime);
  switch (result.outcome) {
    case Outcome::kNotCollecting: return Conflict("not_collecting", kNotCollecting);
    case Outcome::kEnding:
      return Conflict(
          "ending",
          "an edit is under way (the window ends, or another plan replaces it); try again when it is in force");
    case Outcome::kRanks:
      return Conflict("ranks",
                      "in static mode the ranks of this job cannot agree on a step at which to pause; nothing was "
                      "changed. With DYNAMIC_MONITOR=true all of them pause together");
    case Outcome::kNoAnswer: return http::Busy(kLoopHangs);
    case Outcome::kDone:
    case Outcome::kUnchanged:
    case Outcome::kAsked: break;
  }
  const char* done = pause ? "paused" : "resumed";
  const char* outcome = result.outcome == Outcome::kDone        ? done
                        : result.outcome == Outcome::kUnchanged ? "unchanged"
                                                                : "under_way";
  return http::JsonAnswer({{"version", http::kAnswerVersion},
                           {"outcome", outcome},
                           {"paused", result.paused},
                           {"plan_id", result.plan_id},
                           {"step", result.step},
                           {"at_step", StepOrNull(result.at_step)},
                           {"ranks", result.is_of_all_ranks ? "all" : "this"}},
                          result.outcome == Outcome::kAsked ? 202 : 200);
}

}  // namespace

http::Answer PostPause(const Request&, Job& job) {
  return Pause(job, true);
}

http::Answer PostResume(const Request&, Job& job) {
  return Pause(job, false);
}

http::Answer PostRotate(const Request&, Job& job) {
  using Outcome = RotateResult::Outcome;
  const RotateResult result = job.Rotate(kBoundaryTime);
  switch (result.outcome) {
    case Outcome::kNotCollecting:
      return Conflict("not_collecting", std::string(kNotCollecting) + ", and the files of the last one are closed");
    case Outcome::kUnderWay:
      return Conflict("under_way", "segment " + std::to_string(result.segment) +
                                       " begins at the end of the running step; try again after that");
    case Outcome::kNoAnswer: return http::Busy(kLoopHangs);
    case Outcome::kDone:
    case Outcome::kAsked: break;
  }
  const bool is_done = result.outcome == Outcome::kDone;
  return http::JsonAnswer({{"version", http::kAnswerVersion},
                           {"outcome", is_done ? "rotated" : "under_way"},
                           {"segment", result.segment},
                           {"last_step", is_done ? StepOrNull(result.last_step) : Json()},
                           {"directory", json::OrNull(result.directory)},
                           {"files", result.files},
                           {"ranks", RanksOf(job)}},
                          is_done ? 200 : 202);
}

}  // namespace stepwatch::control_socket
