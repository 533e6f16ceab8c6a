// Losses and norms that stand still, those of evaluations, and numbers on which ranks disagree.

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("the loss of an evaluation is no loss of training, also where beats after it repeat it") {
  Script script;
  // Beats of the evaluation have a step that no beat of training has.
  const auto evaluate = [&](double loss) {
    ++script.step;
    for (int beats = 0; beats < 3; ++beats)
      for (int64_t rank = 0; rank < 4; ++rank) {
        Beat beat = StepBeat(script.step, beats < 2 ? RunPhase::kEval : RunPhase::kTrain);
        beat.loss = loss;
        script.lines.push_back(BeatLine(script.t += 1, rank, beat));
      }
    script.change = [loss, until = script.step + 2](int64_t step, int64_t, Beat* beat) {
      if (step <= until) beat->loss = loss;
    };
  };
  for (const double loss : {9.0, 9.0, 7.5}) {
    script.Train(60);
    evaluate(loss);
  }
  CHECK(OpenedIn(Replay(script.Train(60).lines)).empty());
}

TEST_CASE("a loss and a norm that never moved are known by their steps: a jump of either is reported") {
  Script loss;
  loss.change = [](int64_t step, int64_t, Beat* beat) { beat->loss = step > 50 && step <= 55 ? 6 : 2; };
  const std::vector<Incident> changes = Replay(loss.Train(120).lines);
  const std::vector<Incident> spikes = OpenedIn(changes);
  REQUIRE(spikes.size() == 1);
  CHECK(spikes[0].kind == IncidentKind::kLossSpike);
  CHECK(spikes[0].since_step == 50);
  CHECK(IsResolved(changes, spikes[0].id));

  Script norm;
  norm.change = [](int64_t step, int64_t, Beat* beat) { beat->grad_norm = step > 50 ? 300 : 1; };
  const std::vector<Incident> explosions = OpenedIn(Replay(norm.Train(80).lines));
  REQUIRE(explosions.size() == 1);
  CHECK(explosions[0].kind == IncidentKind::kGradExplosion);
}

TEST_CASE("a gauge that is refreshed each ten steps gives each value once") {
  Script script;
  // One measurement is somewhat high; repeated ten times it would look like a spike.
  script.change = [](int64_t step, int64_t, Beat* beat) {
    const int64_t measured = step / 10;
    beat->loss = measured == 30 ? 2.9 : 2 + 0.01 * static_cast<double>(measured % 3);
  };
  CHECK(OpenedIn(Replay(script.Train(600).lines)).empty());
}

TEST_CASE("ranks that beat at different moments of a long step are compared at the same step") {
  std::vector<Line> lines = {EventLine(0, StartEvent{4, "host"})};
  for (double t = 1; t < 600; t += 1.25) {
    const auto rank = static_cast<int64_t>(t / 1.25) % 4;
    Beat beat = StepBeat(static_cast<int64_t>(t / 8));
    beat.grad_norm = 1 + 0.01 * static_cast<double>(*beat.step % 7);
    if (rank == 2 && *beat.step >= 50) *beat.grad_norm *= 1.5;
    lines.push_back(BeatLine(t, rank, beat));
  }
  RequireOne(Replay(lines), IncidentKind::kRankDisagreement, {2});
}

TEST_CASE("a reported number that moves and is the same on all ranks must stay so, one that stands still need not") {
  const auto opened_with = [](double moves) {
    Script script;
    script.change = [moves](int64_t step, int64_t rank, Beat* beat) {
      const double norm = 120 + moves * static_cast<double>(step);
      beat->reported = {{"param_norm", rank == 1 && step > 100 ? 1.1 * norm : norm}};
    };
    return OpenedIn(Replay(script.Train(160).lines));
  };
  const std::vector<Incident> opened = opened_with(0.01);
  REQUIRE(opened.size() == 1);
  CHECK(opened[0].kind == IncidentKind::kRankDisagreement);
  CHECK(opened[0].ranks == std::vector<int64_t>{1});
  CHECK(opened_with(0).empty());
}

TEST_CASE("a norm of -1 or -2 is InternEvo's word for one that is not finite") {
  for (const double code : {-1.0, -2.0}) {
    Script script;
    script.change = [&](int64_t step, int64_t, Beat* beat) {
      if (step > 150) beat->grad_norm = code;
    };
    const Incident incident = RequireOne(Replay(script.Train(170).lines), IncidentKind::kGradNonfinite);
    CHECK(incident.since_step == 150);
  }
}

TEST_CASE("a loss that is now NaN, now not, is one incident until it has been finite for a while") {
  for (const int64_t gap : {2, 3, 5, 7}) {
    Script script;
    script.change = [&](int64_t step, int64_t, Beat* beat) {
      if (step > 100 && step <= 160 && step % gap == 1) beat->loss = std::numeric_limits<double>::quiet_NaN();
    };
    const std::vector<Incident> changes = Replay(script.Train(260).lines);
    CHECK(IsResolved(changes, RequireOne(changes).id));
  }
}

TEST_CASE("a number that was the same to the last digit on all ranks may not differ by a little") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    const double norm = 120 + 0.01 * static_cast<double>(step);
    beat->reported = {{"param_norm", rank == 1 && step > 100 ? norm * (1 + 1e-5) : norm}};
  };
  const std::vector<Incident> changes = Replay(script.Train(300).lines);
  const Incident incident = RequireOne(changes);
  CHECK(incident.ranks == std::vector<int64_t>{1});
  CHECK(incident.since_step == 100);
  CHECK_FALSE(IsResolved(changes, incident.id));
}

TEST_CASE("a digest that stands still is to be the same on all ranks, from the start on as well") {
  for (const int64_t from : {0, 100}) {
    Script script;
    script.change = [&](int64_t step, int64_t rank, Beat* beat) {
      beat->reported = {{"weights_checksum", rank == 2 && step > from ? 987654321.0 : 123456789.0},
                        {"retries", rank == 2 && step > from ? 1.0 : 0.0}};
    };
    const Incident incident = RequireOne(Replay(script.Train(160).lines));
    CHECK(incident.ranks == std::vector<int64_t>{2});
    CHECK(incident.since_step == (from > 0 ? std::optional<int64_t>(from) : std::nullopt));
  }
}

TEST_CASE("measurements of a rank and its device may differ between ranks, and take no place of other numbers") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    const bool is_odd = rank == 2 && step > 100;
    const double moving = 1 + static_cast<double>(step % 17);
    beat->reported.clear();
    for (const char* name : {"cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_alloc_retries", "cuda_ooms", "flops",
                             "peak_flops", "data_seconds", "compute_seconds", "checkpoint_seconds", "checkpoint_bytes"})
      beat->reported.emplace_back(name, is_odd ? 9 * moving : moving);
  };
  CHECK(OpenedIn(Replay(script.Train(200).lines)).empty());

  script = Script();
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    beat->reported.clear();
    for (const char* name :
         {"cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_alloc_retries", "cuda_ooms", "flops", "data_seconds",
          "compute_seconds", "optimizer_seconds", "forward_seconds", "backward_seconds", "communication_seconds"})
      beat->reported.emplace_back(name, 1);
    beat->reported.emplace_back("weights_checksum", rank == 2 && step > 100 ? 987654321.0 : 123456789.0);
  };
  CHECK(RequireOne(Replay(script.Train(160).lines)).ranks == std::vector<int64_t>{2});
}

TEST_CASE("a norm on which all ranks but one agree from the start, to the last digit, is one that the one has wrong") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    beat->grad_norm = (1 + 0.01 * static_cast<double>(step * 7 % 11)) * (rank == 3 ? 1.2 : 1);
  };
  RequireOne(Replay(script.Train(60).lines), IncidentKind::kRankDisagreement, {3});

  // Ranks of a pipeline without the loss report zero.
  Script pipeline;
  pipeline.change = [](int64_t, int64_t rank, Beat* beat) { beat->loss = rank == 3 ? *beat->loss : 0; };
  CHECK(OpenedIn(Replay(pipeline.Train(200).lines)).empty());
}

TEST_CASE("what a rank repeats before its first new value is no level") {
  const double values[] = {1.98, 3.02, 1.98, 2.17, 1.9, 6.36, 2.4, 1.5, 4.1, 2.6};
  Script script;
  script.world = 1;
  script.change = [&](int64_t step, int64_t, Beat* beat) { beat->loss = values[step / 10 % 10]; };
  CHECK(OpenedIn(Replay(script.Train(99).lines)).empty());
}

}  // namespace
}  // namespace stepwatch::operations
