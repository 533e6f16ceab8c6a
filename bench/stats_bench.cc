// Measures the speed of the statistics, as ratios within one run: over a plain read of the same memory, over one
// thread, over clean data, over torch's own operations.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "bench/plain_read.h"
#include "bench/sections.h"
#include "bench/torch_parallel_for.h"
#include "kernels/kernels.h"

namespace {

using stepwatch::bench::Report;
using stepwatch::bench::Settings;

struct Part {
  const char* name;
  void (*run)(const Settings& settings, Report* report);
};
// The torch part is last, since it changes the memory settings of the C library.
constexpr Part kParts[] = {
    {"dram", stepwatch::bench::MeasureDram},          {"avx2", stepwatch::bench::MeasureForcedAvx2},
    {"l3", stepwatch::bench::MeasureLastLevelCache},  {"nan", stepwatch::bench::MeasureNonFinite},
    {"small", stepwatch::bench::MeasureSmallTensors}, {"extras", stepwatch::bench::MeasureExtras},
    {"threads", stepwatch::bench::MeasureTwoThreads}, {"torch", stepwatch::bench::MeasureAgainstTorch},
};

void Introduce(Report* report) {
  const char* target = stepwatch::kernels::MeasurePathName();
  const size_t cache = stepwatch::bench::LastLevelCacheBytes();
  std::printf("CPU target %s; plain read by %s loads; last-level cache %zu MB; pages of 4 KB\n", target,
              stepwatch::bench::PlainReadWidth(), cache >> 20);
  std::printf(
      "each figure is the median over rounds, [lower and upper quartile]; a ratio is taken within each round\n");
  report->Fact("cpu_target", target);
  report->Fact("plain_read", stepwatch::bench::PlainReadWidth());
  report->Fact("last_level_cache_bytes", cache);
  report->Fact("lent_threads", stepwatch::bench::LentThreadsName());
}

}  // namespace

int main(int argc, char** argv) try {
  Settings settings;
  std::vector<std::string> only;
  std::string json;
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  CLI::App app("How fast the statistics are, as ratios within one run.");
  app.add_option("--only", only, "parts to run; all without it")->check(CLI::IsMember(names))->delimiter(',');
  app.add_option("--rounds", settings.rounds, "how often each is timed")->check(CLI::PositiveNumber);
  app.add_option("--dram-mb", settings.dram_mb, "size of the buffers that no cache holds")->check(CLI::PositiveNumber);
  app.add_option("--dtypes", settings.dtypes, "of the parts dram and l3")->delimiter(',');
  app.add_option("--json", json, "write the ratios to this file");
  app.option_defaults()->always_capture_default();
  CLI11_PARSE(app, argc, argv);
  Report report;
  Introduce(&report);
  for (const Part& part : kParts)
    if (only.empty() || std::find(only.begin(), only.end(), part.name) != only.end()) part.run(settings, &report);
  return json.empty() || report.WriteJson(json) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "stats_bench: %s\n", error.what());
  return 1;
}
