// Questions to the ranks of a job, their answers, and the answers of a control socket that result from them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "controller/control_socket/job.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

// The verdict of a rank on a config; nothing is armed.
struct Trial {
  Status refusal;  // Ok: the rank would accept it
  bool collects = false;
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // per collected step
};

// --- messages between ranks ---

enum class RankMatter : uint8_t {
  kReport,   // requests a status report
  kTrial,    // requests the verdict on these bytes as a config
  kUnknown,  // from a later release
};
struct RankQuestion {
  RankMatter matter = RankMatter::kUnknown;
  std::string bytes;  // kTrial
};
std::string QuestionText(const RankQuestion& question);
RankQuestion RankQuestionFrom(std::string_view text_untrusted);

// The answers. They are below 16 KiB for any status.
std::string ReportText(const JobStatus& status);
std::string TrialText(const Trial& trial);
std::string UnknownQuestionText();

// --- answers of a control socket ---

// The states that other ranks have reported.
struct ReportedStates {
  std::array<int, kRunStateCount> ranks{};  // by RunState
  int count = 0;
};
ReportedStates StatesFrom(int own_rank, const RankWords& words);

// For at most this many ranks the reasons are in the answer itself.
inline constexpr size_t kReasonsMax = 8;

// `own`: status of the rank whose control socket answers.
Json RanksJson(const JobStatus& own, const RankWords& words);
Json TrialsJson(const JobStatus& own, const std::string& sha256, const RankWords& words);
// Answer for a config that is rejected before any rank is queried.
Json RefusedTrialsJson(const JobStatus& own, const std::string& sha256, const Status& refusal);

}  // namespace stepwatch::control_socket
