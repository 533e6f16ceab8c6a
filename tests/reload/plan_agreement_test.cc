// Two ranks agree over a store in memory, on one loop that the test turns by hand: what each owner is asked to do.
#include "controller/reload/plan_agreement.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "src/testing/synthetic_model.h"
#include "stepwatch/stores.h"
#include "tests/api/job.h"

namespace stepwatch::reload {
namespace {

using testing::ConfigText;

// Keeps what a reloader would carry out.
class Owner final : public PlanAgreement::Owner {
 public:
  Owner(int rank, const SiteIndex& sites) : pipeline_(rank, true, &limits_) { pipeline_.SetSites(sites); }

  PlanId next_plan_id() const override { return next_plan_id_; }
  PlanAgreement::BuiltEdit Build(const agree::Change& change, PlanId plan_id) override {
    PlanAgreement::BuiltEdit built = Make(change.bytes, plan_id);
    if (!refuses.empty()) {
      built.edit.intent = EditIntent::kRefused;
      built.edit.refusal = Status(StatusCode::kInvalid, refuses);
    }
    return built;
  }
  void TakeAgreed(const Edit& edit, PlanId plan_id) override {
    auto plan = agreement->TakeBuilt(edit.compiled.plan);
    agreement->Submit(plan ? std::move(plan) : Make(edit.text, plan_id).plan, edit);
    next_plan_id_ = plan_id + 1;
  }
  void TakeRejection(const agree::Change& change, const agree::Decision& decision) override {
    rejected_plan_id = change.plan_id;
    rejection = agree::AbortText(decision);
  }
  void TakePause(bool pause, int64_t at_step) override { pauses.emplace_back(pause, at_step); }
  void Renumber(PlanId next) override { next_plan_id_ = next; }
  void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) override {
    if (std::exchange(slot_fails, false)) throw std::bad_alloc();
    placed.push_back(std::move(plan));
  }
  void TellArmed(const plan::Plan&, const std::string& when) noexcept override { armed = when; }
  void WriteBackNow(const WriteBack&) override {}
  void JoinRun(const std::string& id) override { run_id = id; }
  void TellFault(const std::string&) override { ++faults_begun; }
  void EndFault() override { ++faults_ended; }
  void Tell(EventKind kind, std::string, PlanId) override {
    if (telling_fails && kind == EventKind::kDegraded) throw std::bad_alloc();
  }

  // Rank 0 has seen this text in its file.
  void Submit(const std::string& text) {
    PlanAgreement::BuiltEdit built = Make(text, next_plan_id_++);
    agreement->Submit(std::move(built.plan), built.edit);
  }

  PlanAgreement* agreement = nullptr;
  std::string refuses;  // the reason for which this rank cannot take an edit
  bool slot_fails = false, telling_fails = false;
  std::vector<std::unique_ptr<step::PendingPlan>> placed;
  std::vector<std::pair<bool, int64_t>> pauses;
  std::string run_id, armed, rejection;
  PlanId rejected_plan_id = 0;
  int faults_begun = 0, faults_ended = 0;

 private:
  PlanAgreement::BuiltEdit Make(const std::string& text, PlanId plan_id) {
    PlanAgreement::BuiltEdit built{pipeline_.Parse("5ba", text), nullptr};
    REQUIRE(pipeline_.Classify(&built.edit, plan_id) == EditIntent::kRun);
    auto pipeline = step::MakePipeline(built.edit.compiled.plan, 1, size_t{1} << 20);
    built.plan = std::make_unique<step::PendingPlan>(step::NewWindow{}, std::move(pipeline), nullptr);
    return built;
  }

  const PlanLimits limits_{Options(), nullptr};
  EditPipeline pipeline_;
  PlanId next_plan_id_ = 1;
};

struct Rank {
  Rank(boost::asio::io_context& loop, const Options& options, const SiteIndex& sites)
      : owner(options.rank, sites), agreement(options, true, loop, &plane, &owner, nullptr) {
    owner.agreement = &agreement;
    agreement.Enter();
  }

  stats::Engine engine{stats::EngineOptions{}};
  step::WakeUp wake_up;
  step::DataPlane plane{0, &engine, &wake_up};
  Owner owner;
  PlanAgreement agreement;
};

class TwoRanks {
 public:
  TwoRanks() {
    Options options;
    options.store = MakeMemoryStore();
    options.store_poll = std::chrono::milliseconds(1);
    options.world_size = 2;
    options.run_id = "0123456789abcdef";
    for (options.rank = 0; options.rank < 2; ++options.rank)
      ranks.push_back(std::make_unique<Rank>(loop, options, testing::SyntheticModel(2, 8, 1).Sites()));
    RunUntil([this] { return !(*this)[1].run_id.empty(); });
  }

  Owner& operator[](size_t rank) { return ranks[rank]->owner; }
  void RunUntil(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) FAIL("nothing came of it");
      loop.restart();
      loop.run_one_for(std::chrono::milliseconds(10));
    }
  }
  bool decided() const {
    return std::none_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->agreement.undecided(); });
  }
  bool both_placed() const {
    return std::none_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->owner.placed.empty(); });
  }

  boost::asio::io_context loop;
  std::vector<std::unique_ptr<Rank>> ranks;
};

const std::string kOnText = ConfigText({.collect_times = 2}, R"(, "format": "api")");

TEST_CASE("the plan that rank 0 submits is placed on both ranks, under one id and for one step") {
  TwoRanks job;
  CHECK(job[0].run_id == job[1].run_id);
  job[0].Submit(kOnText);
  job.RunUntil([&] { return job.both_placed() && job.decided(); });
  for (size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(job[rank].placed.size() == 1);
    const step::PendingPlan& plan = *job[rank].placed[0];
    CHECK(plan.plan().layout.plan_id == 1);
    CHECK(plan.at_step > 0);
    CHECK(plan.at_step == job[0].placed[0]->at_step);
    CHECK(std::get<step::NewWindow>(plan.effect).start == step::StartRule::kAtStep);
    CHECK(job[rank].armed == ", from step " + std::to_string(plan.at_step));
    CHECK(job[rank].faults_begun == 0);
  }
}

TEST_CASE("a plan that one rank cannot build is placed on none, and rank 0 hears who refused it and why") {
  TwoRanks job;
  job[1].refuses = "no such layer here";
  job[0].Submit(kOnText);
  job.RunUntil([&] { return !job[0].rejection.empty() && job.decided(); });
  CHECK(job[0].rejected_plan_id == 1);
  CHECK(job[0].rejection.find("rank 1") != std::string::npos);
  CHECK(job[0].rejection.find("no such layer here") != std::string::npos);
  CHECK(job[0].placed.empty());
  CHECK(job[1].placed.empty());
  CHECK(job[1].rejection.empty());
}

TEST_CASE("a commit that throws on one rank is tried again there, with the plan and the step that were agreed on") {
  for (const size_t failing : {size_t{0}, size_t{1}}) {
    INFO("rank " << failing << " fails");
    TwoRanks job;
    job[failing].slot_fails = true;
    job[0].Submit(kOnText);
    job.RunUntil([&] { return job.both_placed() && job[failing].faults_ended == 1; });
    CHECK(job[failing].faults_begun == 1);
    CHECK(job[1 - failing].faults_begun == 0);
    CHECK(job[0].placed.size() == 1);
    CHECK(job[1].placed.size() == 1);
    CHECK(job[1].placed[0]->at_step == job[0].placed[0]->at_step);
    CHECK(job.decided());
  }
}

TEST_CASE("a plan that is placed late is placed once, also if there is no memory to tell of it") {
  for (const size_t late : {size_t{0}, size_t{1}}) {
    INFO("rank " << late << " is late");
    TwoRanks job;
    job[late].slot_fails = job[late].telling_fails = true;
    job[0].Submit(kOnText);
    job.RunUntil([&] { return job[late].faults_begun == 1; });
    for (int step = 0; step < 10; ++step) job.ranks[late]->plane.plans.EndStep();
    job.RunUntil([&] { return job.both_placed() && job[late].faults_ended == 1; });
    CHECK(job[late].faults_begun == 1);
    CHECK(job[late].placed.size() == 1);
    CHECK(job[late].placed[0]->at_step == job[1 - late].placed[0]->at_step);
  }
}

}  // namespace
}  // namespace stepwatch::reload
