// A leader whose memory runs out in the midst of a wish goes on with what it had before.
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "controller/agree/coordinator.h"
#include "tests/agree/idle_rank.h"
#include "tests/agree/state_text.h"
#include "tests/catch.h"
#include "tests/failing_memory.h"

namespace stepwatch::agree {
namespace {

using testing::Failure;
using testing::memory_failure;

// Never answers, so that nothing is decided.
class SilentStore final : public Store {
 public:
  void Set(const std::string&, const std::string&, Done) override {}
  void Get(const std::string&, Done) override {}
  void SetOnce(const std::string&, const std::string&, Done) override {}
};

Change LongChange(Deed deed, PlanId plan_id) {
  Change change;
  change.plan_id = plan_id;
  change.deed = deed;
  change.bytes = std::string(300, 'x');
  change.sha256 = std::string(64, '0');
  return change;
}

struct Job {
  Job() {
    Settings settings;
    settings.world_size = 2;
    settings.incarnation = "a1000";
    leader = std::make_shared<Coordinator>(
        settings, std::make_shared<SilentStore>(), &rank,
        Coordinator::Dependencies{[] { return Time(); }, [](const std::function<void()>&) {}, [](Time) {}});
  }
  IdleRank rank{10};
  std::shared_ptr<Coordinator> leader;
};

// A job whose first edit waits for its ballot, and perhaps another one for a step that is far.
std::unique_ptr<Job> WaitingJob(bool is_deferred) {
  auto job = std::make_unique<Job>();
  job->leader->Want(LongChange(Deed::kEdit, 1), 1);
  if (is_deferred) job->leader->Want(LongChange(Deed::kEdit, 2), 2, 1000000);
  return job;
}

// Returns whether memory ran out at that allocation of a further wish.
bool RunsOutAt(long allocation, bool is_deferred) {
  const auto job = WaitingJob(is_deferred), twin = WaitingJob(is_deferred);
  const std::string before = CoordinatorState::TextOf(*job->leader);
  twin->leader->Want(LongChange(Deed::kPause, 3), 3);
  const std::string wanted = CoordinatorState::TextOf(*twin->leader);
  Change change = LongChange(Deed::kPause, 3);
  memory_failure = {Failure::kOnce, allocation};
  try {
    job->leader->Want(std::move(change), 3);
  } catch (const std::bad_alloc&) {
  }
  const bool has_failed = std::exchange(memory_failure, {}).has_failed;
  const std::string after = CoordinatorState::TextOf(*job->leader);
  INFO("allocation " << allocation);
  CHECK((after == wanted || (has_failed && after == before)));
  CHECK(before != wanted);
  return has_failed;
}

TEST_CASE("a wish for which no memory is left takes none away that waits") {
  const bool is_deferred = GENERATE(false, true);
  long allocation = 1;
  while (RunsOutAt(allocation, is_deferred)) ++allocation;
  CHECK(allocation > 4);
}

}  // namespace
}  // namespace stepwatch::agree
