// Bounds of an observer on all runs together.
#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

Line BeatOf(const std::string& run, double t, int64_t rank, Beat beat) {
  Line line = BeatLine(t, rank, std::move(beat));
  line.run = run;
  return line;
}

size_t PointsIn(const Observer& observer, const std::string& run) {
  size_t points = 0;
  for (const std::string& name : observer.SeriesNames(run)) points += observer.SeriesOf(run, name).size();
  return points;
}

TEST_CASE("series of all runs stay within their points, and the run that has most of them becomes coarser", "[slow]") {
  constexpr int64_t kSteps = 2000, kNames = 80;
  constexpr size_t kRuns = 10;
  Observer observer;
  const auto train = [&](const std::string& run, int64_t names, int64_t step) {
    Beat beat;
    beat.step = step;
    for (int64_t i = 0; i < names; ++i)
      beat.reported.emplace_back("metric" + std::to_string(i), static_cast<double>(step));
    (void)observer.Observe(BeatOf(run, static_cast<double>(step), 0, std::move(beat)));
  };
  for (int64_t step = 1; step <= kSteps; ++step) {
    train("small", 1, step);
    for (size_t run = 0; run < kRuns; ++run) train("run" + std::to_string(run), kNames, step);
  }
  CHECK(observer.series_halved() > 0);
  size_t in_all = PointsIn(observer, "small");
  for (size_t run = 0; run < kRuns; ++run) in_all += PointsIn(observer, "run" + std::to_string(run));
  // They are counted every 4096 beats.
  CHECK(in_all <= kPointsOfAllMax + 4096 * kNames);
  CHECK(in_all > kPointsOfAllMax / 2);
  CHECK(PointsIn(observer, "small") >= static_cast<size_t>(kSteps));
}

TEST_CASE("ranks of all runs stay within their number, and known ranks are still observed", "[slow]") {
  Observer observer;
  Beat beat;
  beat.step = 1;
  const auto ranks = static_cast<int64_t>(kRanksMax);
  for (const char* run : {"first", "second"})
    for (int64_t rank = 0; rank < ranks; ++rank) (void)observer.Observe(BeatOf(run, 1, rank, beat));
  CHECK(observer.lines_dropped() == 0);
  (void)observer.Observe(BeatOf("third", 1, 0, beat));
  (void)observer.Observe(BeatOf("first", 1, ranks, beat));
  CHECK(observer.lines_dropped() == 2);
  beat.step = 2;
  (void)observer.Observe(BeatOf("second", 2, ranks - 1, beat));
  CHECK(observer.lines_dropped() == 2);
  REQUIRE(observer.Run("second").has_value());
  CHECK(observer.Run("second")->step == 2);
}

}  // namespace
}  // namespace stepwatch::operations
