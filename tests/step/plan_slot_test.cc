#include "src/step/plan_slot.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::step {
namespace {

// Dies with the plan that holds it.
class Living {
 public:
  explicit Living(std::atomic<int>* count) : count_(*count) { count_.fetch_add(1); }
  ~Living() { count_.fetch_sub(1); }
  Living(const Living&) = delete;
  Living& operator=(const Living&) = delete;

 private:
  std::atomic<int>& count_;
};

// A plan without a pipeline, counted while it lives; the slot does not look at its number.
std::unique_ptr<PendingPlan> Plan(int number, int64_t at_step, std::atomic<int>* living) {
  auto plan = std::make_unique<PendingPlan>();
  plan->at_step = at_step;
  plan->retired_at_boundary = static_cast<uint64_t>(number);
  plan->pipeline = std::shared_ptr<Pipeline>(std::make_shared<Living>(living), nullptr);
  return plan;
}

int Number(const std::unique_ptr<PendingPlan>& plan) {
  return plan ? static_cast<int>(plan->retired_at_boundary) : 0;
}

TEST_CASE("a plan waits for its step and is handed over once") {
  std::atomic<int> living{0};
  {
    PlanSlot slot;
    CHECK_FALSE(slot.waiting());
    CHECK(slot.AtStep(0) == nullptr);
    CHECK(slot.Publish(Plan(1, 3, &living)) == nullptr);
    CHECK(slot.AtStep(2) == nullptr);
    CHECK(slot.waiting());
    CHECK(Number(slot.AtStep(3)) == 1);
    CHECK(slot.AtStep(4) == nullptr);
    CHECK_FALSE(slot.waiting());
    CHECK(slot.TakeSuperseded() == nullptr);
  }
  CHECK(living == 0);
}

TEST_CASE("a step that is over already means the next boundary") {
  std::atomic<int> living{0};
  PlanSlot slot;
  slot.Publish(Plan(1, 3, &living));
  CHECK(Number(slot.AtStep(10)) == 1);
}

TEST_CASE("a newer plan replaces the one that waits, and gives it back") {
  std::atomic<int> living{0};
  PlanSlot slot;
  slot.Publish(Plan(1, 5, &living));
  CHECK(Number(slot.Publish(Plan(2, 0, &living))) == 1);
  CHECK(Number(slot.AtStep(1)) == 2);
}

TEST_CASE("nothing takes the waiting one back") {
  std::atomic<int> living{0};
  PlanSlot slot;
  slot.Publish(Plan(1, 5, &living));
  CHECK(Number(slot.Publish(nullptr)) == 1);
  CHECK(slot.AtStep(9) == nullptr);
}

TEST_CASE("a plan that waits at the end is freed with the slot") {
  std::atomic<int> living{0};
  {
    PlanSlot slot;
    slot.Publish(Plan(1, 5, &living));
    CHECK(living == 1);
  }
  CHECK(living == 0);
}

// The step thread of a stress: takes the plans that are due until Stop, then all that are left.
class StepThread {
 public:
  explicit StepThread(PlanSlot* slot) : slot_(*slot), thread_([this] { Run(); }) {
    while (!running_.load()) std::this_thread::yield();
  }
  std::vector<int> Stop() {
    done_.store(true);
    thread_.join();
    return applied_;
  }

 private:
  void Run() {
    running_.store(true);
    for (int64_t step = 0; !done_.load(); ++step) Take(step);
    Take(INT64_MAX);
  }
  void Take(int64_t step) {
    if (const auto due = slot_.AtStep(step)) applied_.push_back(Number(due));
  }

  PlanSlot& slot_;
  std::vector<int> applied_;
  std::atomic<bool> running_{false};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Most plans wait for a later step, so that AtStep often puts one back while a newer one comes in. The loop thread
// goes on until it has met that case some times, or gives up on a machine where the two threads hardly ever meet.
TEST_CASE("between two threads no plan is lost, seen twice or applied after a newer one") {
  constexpr int kPlans = 30000;
  constexpr size_t kMeetings = 10;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::atomic<int> living{0};
  std::vector<int> given_back;
  std::vector<int> superseded;
  std::vector<int> applied;
  int number = 0;
  {
    PlanSlot slot;
    StepThread steps(&slot);
    while (number < kPlans || (superseded.size() < kMeetings && std::chrono::steady_clock::now() < deadline)) {
      const int64_t at_step = ++number % 8 == 0 ? 0 : INT64_MAX;
      if (const auto old = slot.Publish(Plan(number, at_step, &living))) given_back.push_back(Number(old));
      if (number % 3 != 0) continue;
      if (const auto old = slot.TakeSuperseded()) superseded.push_back(Number(old));
    }
    applied = steps.Stop();
    while (const auto old = slot.TakeSuperseded()) superseded.push_back(Number(old));
  }
  CHECK(living == 0);
  REQUIRE_FALSE(applied.empty());
  CHECK(applied.back() == number);
  CHECK(std::is_sorted(applied.begin(), applied.end()));

  std::vector<int> all = applied;
  all.insert(all.end(), given_back.begin(), given_back.end());
  all.insert(all.end(), superseded.begin(), superseded.end());
  std::sort(all.begin(), all.end());
  std::vector<int> each_once(static_cast<size_t>(number));
  std::iota(each_once.begin(), each_once.end(), 1);
  CHECK((all == each_once));
}

TEST_CASE("plans that nobody fetched are freed with the slot") {
  std::atomic<int> living{0};
  {
    PlanSlot slot;
    StepThread steps(&slot);
    for (int number = 1; number <= 5000; ++number) slot.Publish(Plan(number, INT64_MAX, &living));
    steps.Stop();
  }
  CHECK(living == 0);
}

}  // namespace
}  // namespace stepwatch::step
