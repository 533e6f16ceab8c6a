// The budget in a job of ranks: the worst of them decides for all, and all collect the same steps.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/api/control_sockets.h"
#include "tests/api/manifest.h"
#include "tests/api/old_release.h"
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

std::string WithBudget(int64_t collect_times, const std::string& more = "", const std::string& own = "") {
  return ConfigText({.collect_times = collect_times}, more + R"(, "stepwatch": {"budget": {"percent": 2})" + own + "}");
}

// A job in which measuring takes some ranks so long in a step that is collected that it is over its budget even if a
// busy machine makes steps fifty times as long.
class CostlyRanks : public RankedJob {
 public:
  CostlyRanks(int world, const std::string& config) : RankedJob(world, config) {
    keeps_up = true;
    in_step = [this](Job& job) {
      if (is_costly.at(static_cast<size_t>(job.options.rank))) Measure(job.monitor->recorder());
    };
  }
  ~CostlyRanks() { Stop(); }

  std::vector<std::string> Decisions(size_t rank, EventKind kind = EventKind::kNote) {
    std::vector<std::string> found;
    for (const Event& event : ranks.at(rank)->Events(kind))
      if (event.message.starts_with("budget of ")) found.push_back(event.message);
    return found;
  }
  bool Within(const std::function<bool()>& condition) {
    for (int i = 0; i < 9; ++i)
      if (Eventually(condition)) return true;
    return false;
  }
  bool WaitForDecision(size_t count) {
    return Within([&] { return Decisions(0).size() >= count; });
  }
  bool WaitForAll(EventKind kind, size_t count) {
    return Within([&] {
      return std::all_of(ranks.begin(), ranks.end(), [&](auto& rank) { return rank->Count(kind) >= count; });
    });
  }
  bool WaitUntilDrained() {
    return Within([&] {
      return std::all_of(ranks.begin(), ranks.end(), [](auto& rank) {
        return rank->monitor->GetStatus().plan_id == 0 &&
               rank->Count(EventKind::kDrained) == rank->Count(EventKind::kApplied);
      });
    });
  }
  bool WaitForEnd() {
    return Within([&] { return ranks[0]->Count(EventKind::kWroteBack) > 0; });
  }
  // After Close.
  void CheckAllAreAlike() {
    const Steps steps = ranks[0]->Steps("grad_reduced");
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      INFO("rank " << rank);
      CHECK(ranks[rank]->Steps("grad_reduced") == steps);
      CHECK(ranks[rank]->Count(EventKind::kDegraded) == 0);
    }
  }
  // By a call of this rank's program; returns when its loop knows that the plan is in force.
  void Amend(size_t rank) {
    const size_t applied = ranks.at(rank)->Count(EventKind::kApplied);
    REQUIRE(ranks[rank]->monitor->Amend(Ops({"max", "min"})).ok());
    REQUIRE(Within([&] { return ranks[rank]->Count(EventKind::kApplied) > applied; }));
    (void)ranks[rank]->Refresh();
  }
  // One step of each, on this thread.
  void TrainStep() {
    for (auto& rank : ranks) {
      in_step(*rank);
      rank->TrainStep();
    }
  }
  nlohmann::json Plans(size_t rank) { return ManifestOf(*ranks.at(rank))["plans"]; }

  std::array<std::atomic<bool>, 3> is_costly{};

 private:
  void Measure(Recorder& recorder) const {
    const auto until = std::chrono::steady_clock::now() + milliseconds(3);
    const int64_t size = static_cast<int64_t>(values_.size());
    const TensorView view = DenseView(values_.data(), DType::kFloat32, &size, 1);
    Record record;
    while (std::chrono::steady_clock::now() < until && recorder.Measure({0}, view, &record)) recorder.Discard(record);
  }
  const std::vector<float> values_ = std::vector<float>(1 << 14, 1.5f);
};

TEST_CASE("one rank that is over the budget lowers all: they collect the same steps, and as many as were asked for",
          "[slow]") {
  CostlyRanks job(3, WithBudget(60));
  job.is_costly[2] = true;
  job.Start();
  job.Run(milliseconds(20));
  REQUIRE(job.WaitForDecision(1));
  CHECK(job[0].monitor->GetStatus().plan_id > 0);
  REQUIRE(job.WaitForEnd());
  job.Close();
  // Rank 2, unless the machine has interrupted another in its measuring for still longer.
  CHECK(Has(job.Decisions(0)[0], "; the cost on rank "));
  CHECK(Has(job.Decisions(0)[0], " is decisive, and all ranks follow from step "));
  job.CheckAllAreAlike();
  CHECK(job[0].Steps("grad_reduced").size() == 60);
  for (size_t rank = 0; rank < 3; ++rank) {
    const nlohmann::json plans = job.Plans(rank);
    REQUIRE(plans.size() >= 2);
    CHECK(job.Decisions(rank).at(0) == job.Decisions(0)[0]);
    CHECK(plans[1]["budget"]["step_interval"] > 1);
    CHECK(plans[1]["budget"]["decision"] == job.Decisions(0)[0]);
    CHECK(plans[1]["first_step"] == job.Plans(0)[1]["first_step"]);
  }
}

TEST_CASE("when the rank that was over the budget is well within it, all ranks collect more again") {
  CostlyRanks job(3, WithBudget(100000));
  job.is_costly[1] = true;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForDecision(1));
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  job.is_costly[1] = false;
  // A machine that has no time for this may make them collect still less before.
  const std::string words = "from now on 1 of ", before = "before it was 1 of ";
  const auto raises = [&](const std::string& text) {
    return std::stoll(text.substr(text.find(words) + words.size())) <
           std::stoll(text.substr(text.find(before) + before.size()));
  };
  REQUIRE(job.Within([&] {
    const std::vector<std::string> decisions = job.Decisions(2);
    return std::any_of(decisions.begin(), decisions.end(), raises);
  }));
  (void)job[0].Edit(ConfigText(Off()));
  REQUIRE(job.Within([&] { return job[0].monitor->GetStatus().state == RunState::kIdle; }));
  REQUIRE(job.WaitUntilDrained());
  job.Close();
  job.CheckAllAreAlike();
  for (size_t rank = 0; rank < 3; ++rank) CHECK(job.Decisions(rank) == job.Decisions(0));
}

// The step from which all ranks follow the newest decision that the rank has reported; 0: there is none.
int64_t AgreedStep(CostlyRanks& job, size_t rank) {
  const std::string words = "all ranks follow from step ";
  const std::vector<std::string> decisions = job.Decisions(rank);
  return decisions.empty() ? 0 : std::stoll(decisions.back().substr(decisions.back().find(words) + words.size()));
}

TEST_CASE("a call that comes while a sampling waits for the agreed step does not keep the rank from it") {
  for (const size_t calling : {size_t{0}, size_t{1}}) {
    INFO("rank " << calling);
    bool waits = false;
    for (int attempt = 0; attempt < 20 && !waits; ++attempt) {
      CostlyRanks job(2, WithBudget(20));
      job.is_costly[0] = true;
      job.Start();
      int64_t agreed = 0;
      // The slower the steps are, the more of the time before the agreed one is left when it is known here.
      while (agreed == 0 && job[0].Count(EventKind::kWroteBack) == 0) {
        job.TrainStep();
        std::this_thread::sleep_for(milliseconds(3 + 4 * attempt));
        agreed = AgreedStep(job, calling);
      }
      // There is a step for what the call brings, and the window does not end before.
      const int64_t step = job[calling].monitor->step();
      waits = agreed > step + 1 && agreed < 18;
      if (waits) job.Amend(calling);
      while (job[0].Count(EventKind::kWroteBack) == 0) job.TrainStep();
      job.Close();
      if (!waits) continue;
      job.CheckAllAreAlike();
      CHECK(job[calling].Steps("grad_reduced").size() == 20);
      const nlohmann::json plans = job.Plans(calling);
      CHECK(plans[1]["state"] == "superseded");
      CHECK(plans[2]["budget"]["step_interval"] == 1);
      CHECK(plans[3]["budget"]["step_interval"] == plans[1]["budget"]["step_interval"]);
      CHECK(plans[3]["first_step"] == agreed);
    }
    REQUIRE(waits);
  }
}

TEST_CASE("rank 0 asks the other ranks also where module_ranks leaves it out", "[slow]") {
  CostlyRanks job(2, WithBudget(60, ", \"module_ranks\": [1]"));
  job.is_costly[1] = true;
  job.Start();
  job.Run(milliseconds(20));
  REQUIRE(job.WaitForDecision(1));
  REQUIRE(job.WaitForEnd());
  job.Close();
  CHECK(job.Decisions(0) == job.Decisions(1));
  CHECK(Has(job.Decisions(1)[0], "; the cost on rank 1 is decisive, "));
  CHECK(job[1].Steps("grad_reduced").size() == 60);
  CHECK(job.Plans(1)[1]["budget"]["step_interval"] > 1);
}

TEST_CASE("a rank of a release without budgets of jobs keeps the sampling as it is, which is reported once") {
  CostlyRanks job(2, WithBudget(100000));
  const ControlSockets sockets;
  job[1].options.store = std::make_shared<OldRelease>(job.stores[1]);
  job.is_costly[0] = true;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.Within([&] { return !job.Decisions(0, EventKind::kWarning).empty(); }));
  const nlohmann::json budget = sockets.Ask(0, "GET", "/v1/status")["budget"];
  CHECK(budget["acting"] == false);
  CHECK(budget["reason"].get<std::string>().find("rank 1 runs another release of stepwatch") == 0);
  const int64_t step = job[0].monitor->step();
  REQUIRE(job.Within([&] { return job[0].monitor->step() > step + 200; }));
  CHECK(job[0].Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  REQUIRE(job.WaitForAll(EventKind::kDrained, 1));
  job.Close();
  job.CheckAllAreAlike();
  CHECK(job.Decisions(0, EventKind::kWarning).size() == 1);
  CHECK(job.Decisions(0).empty());
  CHECK(job[0].Count(EventKind::kArmed) == 1);
}

TEST_CASE("random edits, pauses, stops, costs and decisions of the budget: all ranks collect the same steps",
          "[slow]") {
  std::mt19937 random(11);
  CostlyRanks job(3, WithBudget(100000));
  const ControlSockets sockets;
  job.Start();
  job.Run(milliseconds(1));
  REQUIRE(sockets.AllAnswer(1));
  for (int i = 0; i < 25; ++i) {
    const auto post = [&](const std::string& target, const std::string& text = "") {
      const http::ClientRequest request{"POST", target, text, "", "id" + std::to_string(i)};
      (void)sockets.client(random() % 3).Ask(request, std::chrono::seconds(20));
    };
    job.is_costly[random() % 3] = random() % 2 == 0;
    switch (random() % 7) {
      case 0: (void)job[0].Edit(WithBudget(100001 + i)); break;
      case 1: (void)job[0].Edit(ConfigText(Off())); break;
      case 2: post("/v1/apply", WithBudget(200000 + i)); break;
      case 3: post("/v1/apply?at_step=" + std::to_string(job.Slowest() + 40), WithBudget(300000 + i)); break;
      case 4: post("/v1/pause"); break;
      default: post("/v1/resume"); break;
    }
    std::this_thread::sleep_for(milliseconds(random() % 300));
  }
  (void)job[0].Edit(WithBudget(25));
  REQUIRE(job.WaitForEnd());
  REQUIRE(job.WaitUntilDrained());
  job.Close();
  job.CheckAllAreAlike();
}

}  // namespace
}  // namespace stepwatch::testing
