// Captures, replays, swaps, stalls and blocked boundaries in random order, against a model of what must come of them.
#include <random>
#include <set>
#include <tuple>

#include "tests/random_seed.h"
#include "tests/rounds.h"
#include "tests/step/graph_run.h"

namespace stepwatch::step {

using namespace drain;
namespace {

constexpr uint32_t kOwners = 6;

// step, plan, owner of the site, norm
using Row = std::tuple<int64_t, PlanId, uint32_t, double>;

struct Slot {
  uint32_t owner = 0;
  size_t graph = 0;
  double measured = 0;  // since the device step began; 0: nothing
};

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed), stalls_(seed % 2 == 0) { run_.Start(); }

  void Step() {
    if (Chance(8)) PublishPlan();
    if (Chance(40)) run_.PublishStop();
    if (Chance(6) && slots_.size() < device::FakeDevice::kGraphSlots) Capture();
    for (int replays = static_cast<int>(random_() % 3); replays > 0 && graphs_ > 0; --replays) Replay();
    if (stalls_ && Chance(10)) Stall();
    EndStep();
    if (stalls_ && Chance(4)) run_.device().Resume();
    // Rows live for as many device steps as the device is deep.
    if (run_.plane.running.number() % 20 == 0) Settle();
  }
  void Check() {
    run_.device().Resume();
    run_.Finish();
    std::vector<Row> found;
    for (const Record& record : run_.sink->records())
      found.emplace_back(record.step, record.plan_id, plans_.at(record.plan_id)[record.site], record.values[0].f64);
    CHECK(found == expected_);
    uint64_t late = 0;
    for (const auto& [id, plan] : run_.drained) late += run_.Dropped(id, DropReason::kLate);
    CHECK(late == late_);
    CHECK(run_.devices[0].misuse() == "");
  }
  size_t rows() const { return expected_.size(); }
  uint64_t late() const { return late_; }

 private:
  bool Chance(int in) { return random_() % static_cast<uint64_t>(in) == 0; }

  void PublishPlan() {
    const PlanId id = ++last_plan_;
    auto plan = std::make_shared<plan::Plan>(
        *MakePlan({id, {0, 1 + static_cast<int64_t>(random_() % 3), 1 + static_cast<int64_t>(random_() % 9)}}));
    plan->layout.sites.clear();
    for (uint32_t owner = 0; owner < kOwners; ++owner) {
      if (Chance(3)) continue;
      plan->layout.sites.push_back({SiteKind::kGradReduced, Port::kNone, owner, 0, "p"});
      plans_[id].push_back(owner);
    }
    run_.Put(run_.MakePending(plan));
  }
  void Capture() {
    run_.device().CaptureOn(run_.View().stream);
    for (uint64_t left = 1 + random_() % 2; left > 0 && slots_.size() < device::FakeDevice::kGraphSlots; --left) {
      const auto owner = static_cast<uint32_t>(random_() % kOwners);
      run_.plane.graphs.Capture({SiteKind::kGradReduced, Port::kNone, owner, 0, "p"}, {}, run_.View());
      slots_.push_back({owner, graphs_});
    }
    run_.device().CaptureOn(nullptr);
    ++graphs_;
  }
  void Replay() {
    const double value = stalls_ ? 1 : static_cast<double>(1 + random_() % 1000);
    run_.data[0] = static_cast<float>(value);
    const size_t graph = random_() % graphs_;
    size_t first = 0, end = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].graph < graph) first = i + 1;
      if (slots_[i].graph <= graph) end = i + 1;
      if (slots_[i].graph == graph && on_) slots_[i].measured = value;
    }
    run_.device().Replay(first, end);
  }
  void Stall() {
    Settle();
    run_.device().Stall();
  }
  void EndStep() {
    const bool collects = run_.plane.recorder.collecting(), blocked = Chance(12);
    const PlanId id = run_.plane.plans.plan_id();
    run_.device().Block(blocked);
    if (on_ && blocked && graphs_ > 0) ambiguous_ = std::max(ambiguous_, slots_before_);
    if (on_ && !blocked && graphs_ > 0) EndDeviceStep(collects, id);
    slots_before_ = slots_.size();
    run_.plane.plans.EndStep();
    if (!blocked && graphs_ > 0) on_ = run_.plane.recorder.collecting();
    run_.device().Block(false);
  }
  void EndDeviceStep(bool collects, PlanId id) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const double measured = std::exchange(slots_[i].measured, 0);
      if (measured == 0 || !collects) continue;
      const std::vector<uint32_t>& owners = plans_[id];
      if (std::find(owners.begin(), owners.end(), slots_[i].owner) == owners.end()) continue;
      run_.Produced(id, 1);
      if (i < ambiguous_)
        ++late_;
      else
        expected_.emplace_back(run_.plane.running.number(), id, slots_[i].owner, measured);
    }
    ambiguous_ = 0;
  }
  void Settle() {
    run_.device().Resume();
    CHECK(Eventually([&] { return run_.sink->records().size() == expected_.size(); }));
  }

  GraphRun run_;
  std::mt19937_64 random_;
  const bool stalls_;
  PlanId last_plan_ = 0;
  std::map<PlanId, std::vector<uint32_t>> plans_;  // the owners of their sites
  std::vector<Slot> slots_;
  size_t graphs_ = 0, slots_before_ = 0, ambiguous_ = 0;
  bool on_ = true;
  std::vector<Row> expected_;
  uint64_t late_ = 0;
};

TEST_CASE("whatever is captured, replayed, swapped and held up in whatever order, rows and ledger are exact",
          "[random]") {
  const uint64_t first = test::RandomSeed();
  size_t rows = 0;
  uint64_t late = 0;
  for (uint64_t seed = first; seed < first + testing::Rounds(uint64_t{12}, 3); ++seed) {
    INFO("repeat with STEPWATCH_SEED=" << seed);
    RandomRun run(seed);
    for (int step = 0; step < 200; ++step) run.Step();
    run.Check();
    rows += run.rows();
    late += run.late();
  }
  CHECK(rows > 100);
  CHECK(late > 0);
}

}  // namespace
}  // namespace stepwatch::step
