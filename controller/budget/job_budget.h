// The budget of a job of ranks: the proposals of the ranks for the sampling, the decision that follows from them, and
// when rank 0 requests them.
//
// Values in, values out. Each rank has a governor of its own, and rank 0 requests a proposal from all of them. The rank
// whose measuring takes the greatest share of the time decides on a reduction; an increase must suit all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/budget/sampling_governor.h"
#include "src/plan/plan.h"

namespace stepwatch::budget {

// A rank's answer about its window.
struct BudgetProposal {
  enum class Kind : uint8_t {
    kMissing,
    kIncompatible,  // its answer is unreadable: it runs another release
    kNone,          // it has no such window, so it measures no cost
    kStay,          // it proposes no change, or cannot decide yet
    kChange,        // it proposes `decision`
  };
  Kind kind = Kind::kMissing;
  SamplingGovernor::Decision decision;
};

// The change that all ranks apply.
struct JobDecision {
  int rank = 0;  // the rank that proposed it
  SamplingGovernor::Decision decision;
};

// `proposals`: by rank. Nullopt: the sampling in force stays.
std::optional<JobDecision> Combine(const std::vector<BudgetProposal>& proposals, const plan::Sampling& in_force);
// Why the proposals cannot be applied on all ranks; empty: they can. `votes`: all ranks vote before a change applies.
std::string WhyNotDone(const std::vector<BudgetProposal>& proposals, bool votes);

// --- texts between ranks, read as untrusted ---

// The question with the hash of the window's config and the sampling in force.
std::string BudgetQuestionText(const std::string& sha256, const plan::Sampling& in_force);
struct BudgetQuestion {
  std::string sha256;
  plan::Sampling in_force;
};
std::optional<BudgetQuestion> BudgetQuestionFrom(std::string_view text_untrusted);

std::string Encode(const BudgetProposal& proposal);
// kIncompatible: the text is not a proposal.
BudgetProposal BudgetProposalFrom(std::string_view text_untrusted);

std::string Encode(const JobDecision& decision);
std::optional<JobDecision> JobDecisionFrom(std::string_view text_untrusted);

// Decides when rank 0 requests proposals: soon when its own governor proposes a change, and occasionally because
// another rank's may. After a question without a result it waits for twice as many collected steps, and longer.
class QuestionPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Collected steps, of rank 0.
  static constexpr int64_t kOften = 1;  // while rank 0 proposes a change
  static constexpr int64_t kSeldom = 5;
  static constexpr int64_t kMost = 64;
  static constexpr std::chrono::milliseconds kBetween{500};
  static constexpr int64_t kBetweenMost = 16;  // times kBetween, while rank 0 proposes no change

  // Rank 0 has collected this many more steps; `wants`: the decision that its governor proposes, if any.
  void Collected(int64_t steps, const std::optional<SamplingGovernor::Decision>& wants);
  bool IsDue(Time now) const;
  void Sent() { is_open_ = true; }
  // All ranks have answered, or the time limit has passed.
  void Answered(Time now);
  // The proposal was not applied: a rank cannot, or the ranks could not agree in time.
  void Refused() { Double(); }
  // Starts over for another window or another sampling.
  void BeginAnew();

 private:
  enum class Direction : uint8_t { kNone, kLower, kRaise };
  void Double();

  int64_t collected_ = 0;  // since the last question
  int64_t doubled_ = 0;
  Direction wants_ = Direction::kNone;
  bool is_open_ = false;
  std::optional<Time> answered_;
};

}  // namespace stepwatch::budget
