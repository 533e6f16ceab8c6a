// Two ranks agree over a store in memory, on one loop that the test turns by hand: what each rank is to carry out.
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
#include "tests/api/old_release.h"

namespace stepwatch::reload {
namespace {

using testing::ConfigText;

// Keeps what a reloader would carry out.
class Owner final : public PlanAgreement::Edits, public PlanAgreement::Samplings, public PlanAgreement::Reporter {
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
  void OnAgreed(const Edit& edit, PlanId plan_id) override {
    auto plan = agreement->TakeBuilt(edit.compiled.plan);
    agreement->Submit(plan ? std::move(plan) : Make(edit.text, plan_id).plan, edit);
    next_plan_id_ = plan_id + 1;
  }
  void OnRejected(const agree::Change&, const agree::Decision&) override {}
  Status TrySampling(const agree::Change&) override {
    return refuses.empty() ? Status() : Status(StatusCode::kInvalid, refuses);
  }
  void OnSamplingAgreed(const agree::Change& change, int64_t at_step) override {
    if (std::exchange(slot_fails, false)) throw std::bad_alloc();
    samplings.emplace_back(change.bytes, at_step);
  }
  void OnSamplingRejected(const agree::Decision& decision) override { sampling_rejected = decision; }
  void Renumber(PlanId next) override { next_plan_id_ = next; }
  void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) override {
    if (std::exchange(slot_fails, false)) throw std::bad_alloc();
    placed.push_back(std::move(plan));
  }
  void ReportArmed(const plan::Plan&, const std::string& when) noexcept override { armed = when; }
  void ReportFault(const std::string&) override { ++faults_begun; }
  void EndFault() override { ++faults_ended; }
  void Emit(EventKind kind, std::string message, PlanId) override {
    reported.push_back(std::move(message));
    if (reporting_fails && kind == EventKind::kDegraded) throw std::bad_alloc();
  }

  PlanAgreement::Delegates Delegates() {
    return {this,
            this,
            this,
            [](bool, int64_t) {},
            [](const WriteBack&) {},
            [this](const std::string& id) { run_id = id; }};
  }

  // Rank 0 has seen this text in its file.
  void Submit(const std::string& text) {
    PlanAgreement::BuiltEdit built = Make(text, next_plan_id_++);
    agreement->Submit(std::move(built.plan), built.edit);
  }

  // Rank 0 wants the window of this text to go on like that.
  void ProposeSampling(const std::string& text, const std::string& sampling, PlanId plan_id) {
    next_plan_id_ = std::max(next_plan_id_, plan_id + 1);
    agreement->ProposeSampling(sampling, plan_id, Make(text, plan_id).edit);
  }
  // A call of this rank's program has used an id.
  void UsePlanId() { ++next_plan_id_; }

  PlanAgreement* agreement = nullptr;
  std::string refuses;  // the reason for which this rank cannot take an edit
  bool slot_fails = false, reporting_fails = false;
  std::vector<std::unique_ptr<step::PendingPlan>> placed;
  std::vector<std::pair<std::string, int64_t>> samplings;
  std::optional<agree::Decision> sampling_rejected;
  std::vector<std::string> reported;
  std::string run_id, armed;
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
      : owner(options.rank, sites), agreement(options, true, loop, &plane, owner.Delegates(), nullptr) {
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
  explicit TwoRanks(bool one_is_old = false) {
    const std::shared_ptr<Store> memory = MakeMemoryStore();
    Options options;
    options.store = memory;
    options.store_poll = std::chrono::milliseconds(1);
    options.world_size = 2;
    options.run_id = "0123456789abcdef";
    for (options.rank = 0; options.rank < 2; ++options.rank) {
      if (options.rank == 1 && one_is_old) options.store = std::make_shared<testing::OldRelease>(memory);
      ranks.push_back(std::make_unique<Rank>(loop, options, testing::SyntheticModel(2, 8, 1).Sites()));
    }
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

TEST_CASE("a plan that is placed late is placed once, also if there is no memory to report it") {
  for (const size_t late : {size_t{0}, size_t{1}}) {
    INFO("rank " << late << " is late");
    TwoRanks job;
    job[late].slot_fails = job[late].reporting_fails = true;
    job[0].Submit(kOnText);
    job.RunUntil([&] { return job[late].faults_begun == 1; });
    for (int step = 0; step < 10; ++step) job.ranks[late]->plane.plans.EndStep();
    job.RunUntil([&] { return job.both_placed() && job[late].faults_ended == 1; });
    CHECK(job[late].faults_begun == 1);
    CHECK(job[late].placed.size() == 1);
    CHECK(job[late].placed[0]->at_step == job[1 - late].placed[0]->at_step);
  }
}

TEST_CASE("a sampling is taken by both ranks for one step, in each mode of coordination") {
  for (const char* mode : {"strict", "besteffort", "local"}) {
    INFO(mode);
    TwoRanks job;
    const std::string own = std::string(R"("stepwatch": {"coordination": ")") + mode + "\"}";
    const std::string text = ConfigText({.collect_times = 2}, R"(, "format": "api", )" + own);
    job[0].ProposeSampling(text, "fewer", 1);
    job.RunUntil([&] { return !job[0].samplings.empty() && !job[1].samplings.empty() && job.decided(); });
    CHECK(job[0].samplings == job[1].samplings);
    CHECK(job[0].samplings.size() == 1);
    CHECK(job[0].samplings[0].first == "fewer");
    CHECK(job[0].samplings[0].second > 0);
    CHECK(job[0].placed.empty());
  }
}

TEST_CASE("a sampling that one rank cannot build is taken by none, and rank 0 gets that rank and its reason") {
  for (const size_t refusing : {size_t{0}, size_t{1}}) {
    INFO("rank " << refusing);
    TwoRanks job;
    job[refusing].refuses = "no such layer here";
    job[0].ProposeSampling(kOnText, "fewer", 1);
    job.RunUntil([&] { return job[0].sampling_rejected && job.decided(); });
    CHECK(job[0].sampling_rejected->cause == agree::Cause::kCannot);
    CHECK(job[0].sampling_rejected->rank == static_cast<int>(refusing));
    CHECK(testing::Has(job[0].sampling_rejected->reason, "no such layer here"));
    CHECK(job[0].samplings.empty());
    CHECK(job[1].samplings.empty());
  }
}

TEST_CASE("a sampling under an id that a rank has used is refused with the next that it has free") {
  TwoRanks job;
  for (int i = 0; i < 4; ++i) job[1].UsePlanId();
  job[0].ProposeSampling(kOnText, "fewer", 1);
  job.RunUntil([&] { return job[0].sampling_rejected && job.decided(); });
  CHECK(job[0].sampling_rejected->cause == agree::Cause::kRenumber);
  CHECK(job[0].sampling_rejected->next_plan_id == 5);
  job[0].ProposeSampling(kOnText, "fewer", 5);
  job.RunUntil([&] { return job[1].samplings.size() == 1 && job.decided(); });
  CHECK(job[0].samplings == job[1].samplings);
}

TEST_CASE("a sampling that one rank cannot take for want of memory is taken by it later, for the same step") {
  for (const size_t failing : {size_t{0}, size_t{1}}) {
    INFO("rank " << failing << " fails");
    TwoRanks job;
    job[failing].slot_fails = true;
    job[0].ProposeSampling(kOnText, "fewer", 1);
    job.RunUntil([&] { return job[failing].faults_ended == 1 && job.decided(); });
    CHECK(job[failing].faults_begun == 1);
    CHECK(job[1 - failing].faults_begun == 0);
    CHECK(job[0].samplings.size() == 1);
    CHECK(job[0].samplings == job[1].samplings);
  }
}

TEST_CASE("a rank of a release that knows of no sampling does not vote on one: it is taken by none, and given up") {
  TwoRanks job(true);
  job[0].ProposeSampling(kOnText, "fewer", 1);
  job.RunUntil([&] {
    job.ranks[0]->plane.plans.EndStep();
    return job[0].sampling_rejected.has_value();
  });
  CHECK(job[0].sampling_rejected->reason.find("rank 1 had not voted") == 0);
  CHECK(job.decided());
  CHECK(job[0].samplings.empty());
  CHECK(job[1].samplings.empty());
  for (const std::string& message : job[0].reported) CHECK_FALSE(testing::Has(message, "sampling"));
  // It takes part in everything else.
  job[0].Submit(kOnText);
  job.RunUntil([&] { return job.both_placed() && job.decided(); });
  CHECK(job[1].placed[0]->at_step == job[0].placed[0]->at_step);
}

TEST_CASE("an edit takes the place of a sampling that the ranks have not agreed on") {
  TwoRanks job;
  job[0].ProposeSampling(kOnText, "fewer", 1);
  CHECK(job.ranks[0]->agreement.is_resampling());
  CHECK_FALSE(job.ranks[0]->agreement.pausing());
  job[0].Submit(kOnText);
  CHECK_FALSE(job.ranks[0]->agreement.is_resampling());
  job.RunUntil([&] { return job.both_placed() && job.decided(); });
  CHECK(job[0].samplings.empty());
  CHECK(job[1].samplings.empty());
}

}  // namespace
}  // namespace stepwatch::reload
