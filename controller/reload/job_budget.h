// The budget of a job of ranks: what each rank wants of the sampling, what all of them do then, and when they are
// asked.
//
// Values in, values out. Each rank has a governor of its own, and rank 0 asks all of them what they want. The rank
// whose measuring takes the greatest share of the time decides what is lowered; what is raised suits all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/reload/sampling_governor.h"
#include "src/plan/plan.h"

namespace stepwatch::reload {

// What a rank says of its window when it is asked.
struct BudgetProposal {
  enum class Kind : uint8_t {
    kMissing,
    kIncompatible,  // what it said is not understood: it runs another release
    kNone,          // it has no such window: nothing of it is measured
    kStay,          // it wants nothing else, or does not know yet
    kChange,        // `decision`
  };
  Kind kind = Kind::kMissing;
  SamplingGovernor::Decision decision;
};

// What all ranks are to do.
struct JobDecision {
  int rank = 0;  // whose proposal it is
  SamplingGovernor::Decision decision;
};

// `proposals`: by rank. Nothing: the sampling in force stays.
std::optional<JobDecision> Combine(const std::vector<BudgetProposal>& proposals, const plan::Sampling& in_force);
// Why what they proposal cannot be done on all ranks; empty: it can. `votes`: all ranks vote on it before it is done.
std::string WhyNotDone(const std::vector<BudgetProposal>& proposals, bool votes);

// --- texts between ranks, read as untrusted ---

// The question that names the window by the hash of its config, and the sampling in force.
std::string BudgetQuestionText(const std::string& sha256, const plan::Sampling& in_force);
struct BudgetQuestion {
  std::string sha256;
  plan::Sampling in_force;
};
std::optional<BudgetQuestion> BudgetQuestionFrom(std::string_view text_untrusted);

std::string Encode(const BudgetProposal& proposal);
// kIncompatible: it is none.
BudgetProposal BudgetProposalFrom(std::string_view text_untrusted);

std::string Encode(const JobDecision& decision);
std::optional<JobDecision> JobDecisionFrom(std::string_view text_untrusted);

// When rank 0 asks: soon when its own governor wants something, and now and then because another rank's may. What came
// to nothing is asked again after twice as many collected steps, and more time.
class AskingPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Collected steps, of rank 0.
  static constexpr int64_t kOften = 1;  // while rank 0 wants something
  static constexpr int64_t kSeldom = 5;
  static constexpr int64_t kMost = 64;
  static constexpr std::chrono::milliseconds kBetween{500};
  static constexpr int64_t kBetweenMost = 16;  // times kBetween, while rank 0 wants nothing

  // Rank 0 has collected so many steps more, and wants what its governor has decided, if anything.
  void Collected(int64_t steps, const std::optional<SamplingGovernor::Decision>& wants);
  bool IsDue(Time now) const;
  void Asked() { is_asking_ = true; }
  // All have answered, or were not heard.
  void Answered(Time now);
  // What was proposed was not done: a rank cannot, or the ranks could not agree in time.
  void Refused() { Double(); }
  // Another window, or another sampling.
  void BeginAnew();

 private:
  enum class Direction : uint8_t { kNone, kLower, kRaise };
  void Double();

  int64_t collected_ = 0;  // since it was asked
  int64_t doubled_ = 0;
  Direction wants_ = Direction::kNone;
  bool is_asking_ = false;
  std::optional<Time> answered_;
};

}  // namespace stepwatch::reload
