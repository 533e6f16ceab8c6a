// Levels of losses and norms: what is news, and what a run has done before and come back from.

#include <cmath>
#include <random>

#include "tests/catch.h"
#include "tests/operations/script.h"
#include "tests/rounds.h"

namespace stepwatch::operations {
namespace {

// Noise of standard deviation 1, the same on every machine.
double NoiseOf(std::mt19937_64* random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>((*random)() >> 11) / 9007199254740992.0;
  return sum - 6;
}

// The changes of a run of one rank with this loss and norm at each step.
std::vector<Incident> ChangesWith(int64_t steps, const std::function<double(int64_t)>& loss,
                                  const std::function<double(int64_t)>& norm) {
  Script script;
  script.world = 1;
  script.change = [&](int64_t step, int64_t, Beat* beat) {
    beat->loss = loss(step);
    beat->grad_norm = norm(step);
  };
  return Replay(script.Train(steps).lines);
}

std::vector<Incident> ChangesWithLoss(int64_t steps, const std::function<double(int64_t)>& loss) {
  return ChangesWith(steps, loss, [](int64_t step) { return 1 + 0.01 * static_cast<double>(step % 7); });
}

TEST_CASE("a loss that jumps while it still falls is a spike: where it was ten steps ago is no measure") {
  for (const double fall : {20.0, 60.0, 150.0}) {
    std::mt19937_64 random(7);
    const std::vector<Incident> changes = ChangesWithLoss(200, [&](int64_t step) {
      const double learnt = 2.4 + 8.5 * std::exp(-static_cast<double>(step) / fall) + 0.03 * NoiseOf(&random);
      return step > 80 && step <= 90 ? learnt + 6 : learnt;
    });
    const Incident incident = RequireOne(changes, IncidentKind::kLossSpike);
    CHECK(incident.since_step == 80);
    CHECK(IsResolved(changes, incident.id));
  }
}

TEST_CASE("a loss that rises over three steps and decays is a spike: half of its height comes with the second") {
  const std::vector<Incident> changes = ChangesWithLoss(300, [&](int64_t step) {
    const double usual = 0.11 + 0.001 * static_cast<double>(step * 37 % 5 - 2);
    const auto after = static_cast<double>(step - 200);
    if (step <= 200) return usual;
    return usual * (1 + 1.4 * (after <= 3 ? after / 3 : std::exp((3 - after) / 30)));
  });
  const Incident incident = RequireOne(changes, IncidentKind::kLossSpike);
  CHECK(incident.since_step);
  CHECK(std::abs(static_cast<double>(*incident.since_step - 200)) <= 1);
}

TEST_CASE("noise that comes back is no divergence, however long it lasts and whether or not it is correlated",
          "[slow]") {
  for (const double correlation : {0.0, 0.9}) {
    std::mt19937_64 random(3);
    double noise = 0;
    const auto loss = [&](int64_t) {
      noise = correlation * noise + std::sqrt(1 - correlation * correlation) * NoiseOf(&random);
      return (correlation > 0 ? 2.4 : 0.5) + 0.1 * noise;
    };
    CHECK(OpenedIn(ChangesWithLoss(testing::Rounds(6000, 4), loss)).empty());
  }
  const auto swings = [](int64_t step) { return 1.2 + 0.3 * std::sin(static_cast<double>(step) / 15); };
  CHECK(OpenedIn(ChangesWithLoss(1000, swings)).empty());
}

TEST_CASE("a loss that rises out of its noise, and goes on, has diverged") {
  std::mt19937_64 random(5);
  const std::vector<Incident> opened = OpenedIn(ChangesWithLoss(400, [&](int64_t step) {
    const double grown = step > 200 ? std::pow(1.02, static_cast<double>(step - 200)) : 1;
    return (2.5 + 0.35 * NoiseOf(&random)) * std::min(grown, 5.0);
  }));
  REQUIRE(!opened.empty());
  CHECK(opened[0].kind == IncidentKind::kDivergence);
  CHECK(opened[0].since_step >= 190);
  CHECK(opened[0].since_step <= 220);
}

// Noise of one sample: of a normal distribution, or of batches of two kinds, in turn or by chance.
enum class Noisy { kNormal, kHeavyTail, kInTurn, kByChance };

double FactorOf(Noisy kind, double noise, int64_t step, std::mt19937_64* random) {
  switch (kind) {
    case Noisy::kNormal: return 1 + noise * NoiseOf(random);
    case Noisy::kHeavyTail: return std::exp(noise * NoiseOf(random));
    case Noisy::kInTurn: return 1 + noise * (step % 2 == 0 ? 1 : -1) + 0.03 * NoiseOf(random);
    case Noisy::kByChance: return 1 + noise * ((*random)() % 10 < 3 ? 1.5 : -0.6) + 0.03 * NoiseOf(random);
  }
  return 1;
}

TEST_CASE("a loss that has risen for good is reported once in any noise, and its single samples are not reported",
          "[slow]") {
  struct Rise {
    double height;
    double noise;
  };
  for (const Noisy kind : {Noisy::kNormal, Noisy::kHeavyTail, Noisy::kInTurn, Noisy::kByChance})
    for (const Rise& rise : {Rise{1.5, 0.05}, Rise{1.5, 0.2}, Rise{2, 0.3}, Rise{3, 0.45}})
      for (const int64_t ramp : {1, 500}) {
        INFO(static_cast<int>(kind) << " " << rise.height << " " << rise.noise << " " << ramp);
        std::mt19937_64 random(7);
        const std::vector<Incident> changes = ChangesWithLoss(2600, [&](int64_t step) {
          const double risen = std::clamp(static_cast<double>(step - 1500) / static_cast<double>(ramp), 0.0, 1.0);
          const double level = (2 + 6 * std::exp(-static_cast<double>(step) / 100)) * (1 + (rise.height - 1) * risen);
          return level * FactorOf(kind, rise.noise, step, &random);
        });
        const Incident incident = RequireOne(changes);
        CHECK_FALSE(IsResolved(changes, incident.id));
        CHECK(incident.t <= 0.5 * static_cast<double>(1500 + ramp + 200));
        CHECK(incident.since_step >= 1300);
        CHECK(incident.since_step <= 1500 + std::max<int64_t>(ramp / 2, 20));
      }
}

TEST_CASE("a loss of any noise that does not rise is no news", "[slow]") {
  for (const Noisy kind : {Noisy::kNormal, Noisy::kHeavyTail, Noisy::kInTurn, Noisy::kByChance})
    for (const double noise : {0.05, 0.2, 0.45})
      for (const unsigned seed : {1U, 2U}) {
        INFO(static_cast<int>(kind) << " " << noise << " " << seed);
        std::mt19937_64 random(seed);
        CHECK(OpenedIn(ChangesWithLoss(testing::Rounds(5000, 4), [&](int64_t step) {
                return (2 + 6 * std::exp(-static_cast<double>(step) / 100)) * FactorOf(kind, noise, step, &random);
              })).empty());
      }
}

TEST_CASE("a loss below zero rises like any other, without a ratio") {
  for (const double level : {-40.0, 60.0}) {
    std::mt19937_64 random(5);
    const Incident incident = RequireOne(
        ChangesWithLoss(
            600, [&](int64_t step) { return level + 0.4 * NoiseOf(&random) + (step > 500 && step <= 506 ? 30 : 0); }),
        IncidentKind::kLossSpike);
    CHECK((incident.evidence.Find("ratio") != nullptr) == (level > 0));
  }
}

TEST_CASE("a height that the loss has come back from several times is no news, a greater one is") {
  std::mt19937_64 random(11);
  const Incident incident =
      RequireOne(ChangesWithLoss(800,
                                 [&](int64_t step) {
                                   const double task = random() % 10 < 3 ? 3 : 2;
                                   return task + 0.1 * NoiseOf(&random) + (step > 700 && step <= 710 ? 6 : 0);
                                 }),
                 IncidentKind::kLossSpike);
  CHECK(incident.since_step == 700);
}

TEST_CASE("a gradient norm that rises slowly has exploded at ten times its level, and once") {
  std::mt19937_64 random(2);
  const Incident incident = RequireOne(ChangesWith(
                                           320, [](int64_t step) { return 2 + 0.01 * static_cast<double>(step % 5); },
                                           [&](int64_t step) {
                                             const double grown =
                                                 step > 150 ? std::pow(1.05, static_cast<double>(step - 150)) : 1;
                                             return std::min(grown, 1e4) * std::exp(0.15 * NoiseOf(&random));
                                           }),
                                       IncidentKind::kGradExplosion);
  CHECK(incident.since_step >= 150);
  // Ten times is reached at the step 197, and the line of a step comes half a second after the one before.
  CHECK(incident.opened_t < 0.5 * 205);
}

TEST_CASE("a norm that is written down with one decimal is zero before it has collapsed") {
  const auto loss = [](int64_t step) { return 2 + 0.01 * static_cast<double>(step % 5); };
  const auto opened_at = [&](double usual, double more) {
    const auto norm = [=](int64_t step) { return step >= 300 ? 0.0 : step % 7 == 0 ? usual + more : usual; };
    return OpenedIn(ChangesWith(400, loss, norm)).size();
  };
  CHECK(opened_at(0.1, 0.1) == 0);
  CHECK(opened_at(0.7, 0.1) == 1);
  CHECK(opened_at(0.1234, 0.0123) == 1);
}

TEST_CASE("a rank that differs is reported until it agrees again") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    beat->grad_norm = 1 + 0.01 * static_cast<double>(step % 7);
    if (rank == 2 && step > 100 && step <= 500) *beat->grad_norm *= 1.1;
  };
  const std::vector<Incident> changes = Replay(script.Train(500).lines);
  const Incident incident = RequireOne(changes);
  CHECK(!IsResolved(changes, incident.id));
  CHECK(IsResolved(Replay(script.Train(20).lines), incident.id));
}

TEST_CASE("rows without the rank that differs, since it beats at another step, are no evidence that it agrees") {
  std::vector<Line> lines = {EventLine(0, StartEvent{16, "host"})};
  for (int64_t second = 1; second < 150; ++second)
    for (int64_t rank = 0; rank < 16; ++rank) {
      const double t = static_cast<double>(second) + static_cast<double>(rank * 7 % 16) / 16;
      Beat beat = StepBeat(static_cast<int64_t>(2 * t));
      beat.loss = 2 + 0.01 * static_cast<double>(*beat.step % 7);
      if (rank == 3 && *beat.step > 100) *beat.loss += 0.2;
      lines.push_back(BeatLine(t, rank, beat));
    }
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.t < b.t; });
  RequireOne(Replay(lines), IncidentKind::kRankDisagreement, {3});
}

TEST_CASE("a loss that was always small is judged by its own scale, if it is many times as high") {
  for (const double scale : {0.003, 1.0}) {
    const Incident incident =
        RequireOne(ChangesWithLoss(200,
                                   [&](int64_t step) {
                                     const double usual = scale * (1 + 0.01 * static_cast<double>(step * 37 % 5 - 2));
                                     return step > 120 && step <= 130 ? 4 * usual : usual;
                                   }),
                   IncidentKind::kLossSpike);
    CHECK(incident.since_step == 120);
  }
  // Twice as much of nearly nothing is nothing.
  const auto doubles = [](int64_t step) { return step > 120 ? 0.02 : 0.01 + 1e-4 * static_cast<double>(step % 3); };
  CHECK(OpenedIn(ChangesWithLoss(200, doubles)).empty());
}

TEST_CASE("a divergence that its last samples show is not over with the next one", "[slow]") {
  for (unsigned seed = 1; seed <= testing::Rounds(500U); ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Incident> changes = ChangesWithLoss(400, [&](int64_t step) {
      const double learnt = 3 + 10 * std::exp(-static_cast<double>(step) / 50);
      const double rise = std::pow(6, std::clamp(static_cast<double>(step - 200) / 5, 0.0, 1.0));
      return learnt * rise * (1 + 0.05 * NoiseOf(&random));
    });
    const Incident incident = RequireOne(changes);
    CHECK_FALSE(IsResolved(changes, incident.id));
  }
}

TEST_CASE("a loss that is a third higher after a warm restart of its learning rate is no spike") {
  const auto opened_with = [](bool restarts) {
    Script script;
    script.world = 1;
    script.change = [&](int64_t step, int64_t, Beat* beat) {
      const auto since = static_cast<double>(step % 200);
      const bool is_bump = step > 200 && since < 60;
      beat->loss = *beat->loss * (is_bump ? 1 + 0.35 * std::exp(-since / 30) : 1);
      beat->lr = restarts ? 1e-3 * (1.05 + std::cos(since * 3.14159 / 200)) : 1e-3;
    };
    return OpenedIn(Replay(script.Train(380).lines)).size();
  };
  CHECK(opened_with(true) == 0);
  CHECK(opened_with(false) == 1);
}

TEST_CASE("a learning rate that was touched before a spike is no excuse for it") {
  for (const int64_t dip : {340, 375, 500}) {
    Script script;
    script.change = [&](int64_t step, int64_t, Beat* beat) {
      *beat->loss *= step > 400 && step <= 410 ? 1.55 : 1;
      beat->lr = step >= dip && step < dip + 5 ? 3e-5 : 1e-4;
    };
    CHECK(RequireOne(Replay(script.Train(450).lines)).since_step == 400);
  }
}

TEST_CASE("a loss that is half higher in a warm-up of its learning rate is a spike") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    *beat->loss *= step > 70 && step <= 76 ? 1.5 : 1;
    beat->lr = 3e-6 * static_cast<double>(step);
  };
  CHECK(RequireOne(Replay(script.Train(100).lines)).since_step == 70);
}

TEST_CASE("a norm of zero between updates is no level, neither to fall to nor to rise from") {
  const auto accumulates = [](int64_t step) { return step % 4 == 0 ? 1 + 0.05 * static_cast<double>(step % 7) : 0.0; };
  const auto even = [](int64_t step) { return 2 + 0.01 * static_cast<double>(step % 5); };
  CHECK(OpenedIn(ChangesWith(800, even, accumulates)).empty());
  const auto dies = [&](int64_t step) { return step <= 400 ? accumulates(step) : 0.0; };
  const Incident incident = RequireOne(ChangesWith(500, even, dies), IncidentKind::kGradCollapse);
  CHECK(incident.since_step == 400);
}

TEST_CASE("a norm that was never low has collapsed after four steps at zero") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    if (step > 100) beat->grad_norm = 0;
  };
  const Incident incident = RequireOne(Replay(script.Train(120).lines));
  CHECK(incident.t <= 104.5 * script.step_seconds);
  CHECK(incident.since_step == 100);
}

}  // namespace
}  // namespace stepwatch::operations
