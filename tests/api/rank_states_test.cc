#include "controller/api/rank_states.h"

#include "tests/catch.h"

namespace stepwatch::api {
namespace {

constexpr auto kIdle = static_cast<size_t>(RunState::kIdle);
constexpr auto kFailed = static_cast<size_t>(RunState::kFailed);

TEST_CASE("other ranks are known by their last message, and for five minutes") {
  RankStates states;
  const RankStates::Time start{};
  status::RankStates now = states.Now(RunState::kIdle, 7, start);
  CHECK(now.ranks[kIdle] == 1);
  CHECK(now.unknown == 7);
  CHECK(now.asked_unix == 0);
  status::StateCounts reported{};
  reported[kIdle] = 4;
  reported[kFailed] = 2;
  states.Update(reported, start, 1.5e9);
  now = states.Now(RunState::kIdle, 7, start + RankStates::kHoldFor);
  CHECK(now.ranks[kIdle] == 5);
  CHECK(now.ranks[kFailed] == 2);
  CHECK(now.unknown == 1);
  CHECK(now.asked_unix == 1.5e9);
  now = states.Now(RunState::kFailed, 7, start + RankStates::kHoldFor + std::chrono::seconds(1));
  CHECK(now.ranks[kIdle] == 0);
  CHECK(now.ranks[kFailed] == 1);
  CHECK(now.unknown == 7);
  CHECK(now.asked_unix == 1.5e9);
}

}  // namespace
}  // namespace stepwatch::api
