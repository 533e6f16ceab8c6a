// Announcements of rank 0 as other ranks read them: the number of its newest question, and its version.
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/agree/coordinator.h"
#include "stepwatch/stores.h"
#include "tests/agree/idle_rank.h"
#include "tests/catch.h"

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

class ListeningRank final : public IdleRank {
 public:
  ListeningRank() : IdleRank(1) {}
  void LeaderIsSilent(milliseconds) override { ++silences; }
  void LeaderIsIncompatible(const std::string& why) override { foreign.push_back(why); }
  void QuestionAnnounced(const Incarnation& session, int64_t number) override { asked.emplace_back(session, number); }

  int silences = 0;
  std::vector<std::string> foreign;
  std::vector<std::pair<std::string, int64_t>> asked;
};

struct Agreeing {
  Agreeing(int rank, std::shared_ptr<Store> store, std::deque<std::function<void()>>* work) {
    Settings settings;
    settings.rank = rank;
    settings.world_size = 2;
    settings.incarnation = rank == 0 ? "a0" : "b1";
    coordinator = std::make_shared<Coordinator>(
        settings, std::move(store), &delegate,
        Coordinator::Dependencies{[this] { return now; },
                                  [work](std::function<void()> each) { work->push_back(std::move(each)); },
                                  [](Time) {}});
  }
  void Advance(std::deque<std::function<void()>>* work) {
    now += milliseconds(300);
    coordinator->Advance();
    while (!work->empty()) {
      const std::function<void()> each = std::move(work->front());
      work->pop_front();
      each();
    }
  }
  Time now{std::chrono::hours(1)};
  ListeningRank delegate;
  std::shared_ptr<Coordinator> coordinator;
};

TEST_CASE("the number of a question travels with the newest proposal, and no request more is made for it") {
  const auto store = MakeMemoryStore();
  std::deque<std::function<void()>> work;
  Agreeing leader(0, store, &work), member(1, store, &work);
  leader.Advance(&work);
  member.Advance(&work);
  CHECK(member.delegate.asked.back() == std::pair<std::string, int64_t>("a0", 0));
  leader.coordinator->AnnounceQuestion(1);
  leader.Advance(&work);
  for (int i = 0; i < 3; ++i) member.Advance(&work);
  CHECK(member.delegate.asked.back() == std::pair<std::string, int64_t>("a0", 1));
  CHECK(member.delegate.asked.size() == 2);
  Change change;
  change.plan_id = 1;
  change.sha256 = "abc";
  change.bytes = "{}";
  leader.coordinator->Want(change, 1);
  leader.coordinator->AnnounceQuestion(2);
  for (int i = 0; i < 6; ++i) leader.Advance(&work), member.Advance(&work);
  CHECK(member.delegate.asked.back().second == 2);
}

TEST_CASE("a rank that does not understand rank 0 reports it once, in one sentence") {
  const auto store = MakeMemoryStore();
  store->Set("stepwatch/latest", "v3 a0 0 silent 0 and more\nrun", [](const auto&) {});
  std::deque<std::function<void()>> work;
  Agreeing member(1, store, &work);
  for (int i = 0; i < 300; ++i) member.Advance(&work);
  REQUIRE(member.delegate.foreign.size() == 1);
  CHECK(member.delegate.foreign[0] ==
        "rank 0 uses version v3 of the agreement, this rank v2: all ranks of a job must run the same release of "
        "Stepwatch");
  CHECK(member.delegate.silences == 0);
}

}  // namespace
}  // namespace stepwatch::agree
