// What the ranks of a job are asked and say, and what a control socket makes of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "controller/control_socket/job.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

// How a rank would take a config; nothing is armed.
struct Trial {
  Status refusal;  // Ok: it would take it
  bool collects = false;
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // of one collected step
};

// --- between ranks ---

enum class RankMatter : uint8_t {
  kReport,   // how are you?
  kTrial,    // would you take these bytes as a config?
  kUnknown,  // asked by a later release
};
struct RankQuestion {
  RankMatter matter = RankMatter::kUnknown;
  std::string bytes;  // kTrial
};
std::string QuestionText(const RankQuestion& question);
RankQuestion RankQuestionFrom(std::string_view text_untrusted);

// The answers. They are below 16 KiB whatever the status holds.
std::string ReportText(const JobStatus& status);
std::string TrialText(const Trial& trial);
std::string UnknownQuestionText();

// --- of a control socket ---

// The states that ranks have told of themselves, without this rank's own.
struct StatesHeard {
  std::array<int, kRunStateCount> ranks{};  // by RunState
  int count = 0;
};
StatesHeard StatesFrom(int own_rank, const RankWords& words);

// Of these many ranks the reasons are at hand without a look at each.
inline constexpr size_t kReasonsMax = 8;

// `own`: of the rank whose control socket is asked.
Json RanksJson(const JobStatus& own, const RankWords& words);
Json TrialsJson(const JobStatus& own, const std::string& sha256, const RankWords& words);
// A config that is refused before any rank is asked.
Json RefusedTrialsJson(const JobStatus& own, const std::string& sha256, const Status& refusal);

}  // namespace stepwatch::control_socket
