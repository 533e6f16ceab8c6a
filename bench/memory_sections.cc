// Reading memory once: the speed of the statistics relative to a loop that only reads.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "bench/buffer.h"
#include "bench/plain_read.h"
#include "bench/sections.h"
#include "kernels/kernels.h"

namespace stepwatch::bench {
namespace {

constexpr size_t kPrefetchDistances[] = {512, 2048, 4096};

std::string Rate(size_t bytes, const Spread& seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GB/s", static_cast<double>(bytes) * 1e-9 / seconds.median);
  return text;
}

// Compares all statistics of one buffer with a plain read of it, and with the best prefetching read.
void CompareWithRead(const Buffer& buffer, DType dtype, const std::string& prefix, Target over_read,
                     Target over_prefetched, const Settings& settings, Report* report) {
  Rounds rounds(Clock::kThreadCpu);
  const TensorView view = buffer.View(dtype);
  const size_t ours = rounds.Add([&] { MeasureAll(view); });
  const size_t plain = rounds.Add([&] { Keep(PlainRead(buffer.data(), buffer.bytes())); });
  std::vector<size_t> prefetching;
  for (size_t distance : kPrefetchDistances)
    prefetching.push_back(
        rounds.Add([&buffer, distance] { Keep(PlainRead(buffer.data(), buffer.bytes(), distance)); }));
  rounds.Run(settings.rounds);
  const size_t best = *std::min_element(prefetching.begin(), prefetching.end(), [&](size_t a, size_t b) {
    return rounds.SecondsOf(a).median < rounds.SecondsOf(b).median;
  });
  const std::string rate = Rate(buffer.bytes(), rounds.SecondsOf(ours)) + " of ";
  report->Ratio(prefix + "_over_read", rounds.Ratio(plain, ours), Style::kPercent, over_read,
                rate + Rate(buffer.bytes(), rounds.SecondsOf(plain)));
  report->Ratio(prefix + "_over_prefetched_read", rounds.Ratio(best, ours), Style::kPercent, over_prefetched,
                rate + Rate(buffer.bytes(), rounds.SecondsOf(best)) + ", prefetched " +
                    std::to_string(kPrefetchDistances[best - prefetching.front()]) + " bytes ahead");
}

}  // namespace

DType DTypeOfName(const std::string& name) {
  if (name == "fp64") return DType::kFloat64;
  if (name == "fp32") return DType::kFloat32;
  if (name == "fp16") return DType::kFloat16;
  if (name == "bf16") return DType::kBFloat16;
  if (name == "e4m3") return DType::kFloat8E4M3;
  if (name == "e5m2") return DType::kFloat8E5M2;
  throw std::invalid_argument("no float format is called " + name);
}

size_t LastLevelCacheBytes() {
  size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    size_t size = 0;
    std::string unit;
    if (file >> size >> unit) largest = std::max(largest, size << (unit == "M" ? 20 : 10));
  }
  return largest;
}

void MeasureAll(const TensorView& tensor) {
  Statistics statistics;
  if (const Status status = kernels::Measure(tensor, {}, &statistics); !status.ok())
    throw std::runtime_error(status.ToString());
  Keep(statistics);
}

void MeasureDram(const Settings& settings, Report* report) {
  report->Section(std::to_string(settings.dram_mb) +
                  " MB, cold: all statistics, one thread, over a plain read of the " + "same buffer (" +
                  PlainReadWidth() + " loads)");
  Buffer buffer(settings.dram_mb << 20);
  for (const std::string& name : settings.dtypes) {
    const DType dtype = DTypeOfName(name);
    buffer.FillNormal(dtype);
    const bool single = dtype == DType::kFloat32;
    CompareWithRead(buffer, dtype, name + "_dram", AtLeast(single ? 0.9 : 0.85), single ? AtLeast(0.85) : Target{},
                    settings, report);
  }
}

void MeasureLastLevelCache(const Settings& settings, Report* report) {
  constexpr size_t kBytes = size_t{32} << 20;
  const size_t cache = LastLevelCacheBytes();
  std::string title = "32 MB, hot: again and again, as far as the last-level cache holds it";
  if (cache != 0) title += "; it has " + std::to_string(cache >> 20) + " MB";
  if (cache != 0 && cache <= kBytes) title += ", which these 32 MB do not fit in";
  report->Section(title);
  Buffer buffer(kBytes);
  for (const std::string& name : settings.dtypes) {
    const DType dtype = DTypeOfName(name);
    buffer.FillNormal(dtype);
    CompareWithRead(buffer, dtype, name + "_l3", dtype == DType::kFloat32 ? Target{} : AtLeast(0.55), {}, settings,
                    report);
  }
}

}  // namespace stepwatch::bench
