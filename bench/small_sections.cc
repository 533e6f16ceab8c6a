// Benchmarks that depend on the kernels and hardly on memory: special values, and the fixed cost of a call.

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/buffer.h"
#include "bench/plain_read.h"
#include "bench/sections.h"
#include "kernels/kernels.h"

namespace stepwatch::bench {
namespace {

// Returns a dense fp32 tensor of `count` elements for each of `items`, contiguous in the buffer.
std::vector<kernels::BatchItem> Slices(const Buffer& buffer, int64_t count, size_t items) {
  std::vector<kernels::BatchItem> slices(items);
  for (size_t i = 0; i < items; ++i)
    slices[i].tensor = buffer.View(DType::kFloat32, static_cast<int64_t>(i) * count, count);
  return slices;
}

void MeasureEach(std::vector<kernels::BatchItem>* items) {
  for (kernels::BatchItem& item : *items) item.code = kernels::Measure(item.tensor, {}, &item.statistics).code();
  Keep(items->front());
}

void MeasureTogether(std::vector<kernels::BatchItem>* items) {
  kernels::MeasureBatch(items->data(), items->size(), {}, nullptr);
  Keep(items->front());
}

// Compares clean data with the same data with one special value among every 64, all of one kind or in turn.
Spread CleanOverPlanted(DType dtype, size_t bytes, const std::vector<uint64_t>& codes, const Settings& settings) {
  Buffer clean(bytes), planted(bytes);
  clean.FillNormal(dtype);
  planted.FillNormal(dtype);
  planted.Plant(dtype, 64, codes.data(), codes.size());
  const TensorView clean_view = clean.View(dtype), planted_view = planted.View(dtype);
  Rounds rounds(Clock::kThreadCpu);
  const size_t a = rounds.Add([&] { MeasureAll(clean_view); });
  const size_t b = rounds.Add([&] { MeasureAll(planted_view); });
  rounds.Run(settings.rounds);
  return rounds.Ratio(a, b);
}

}  // namespace

void MeasureNonFinite(const Settings& settings, Report* report) {
  constexpr size_t kBytes[] = {size_t{256} << 10, size_t{32} << 20};
  report->Section(
      "one NaN, one infinity, or both in turn among every 64 elements: speed over that of clean data; the " +
      std::string("lowest of 256 KB, hot, and 32 MB"));
  Spread lowest{1e300, 0, 0};
  for (const char* name : {"fp64", "fp32", "fp16", "bf16", "e4m3", "e5m2"}) {
    const DType dtype = DTypeOfName(name);
    const SpecialCodes codes = SpecialCodesOf(dtype);
    std::vector<std::vector<uint64_t>> kinds{{codes.nan}};
    if (codes.infinity != 0) kinds.insert(kinds.end(), {{codes.infinity}, {codes.nan, codes.infinity}});
    Spread of_dtype{1e300, 0, 0};
    for (size_t bytes : kBytes)
      for (const auto& kind : kinds) {
        const Spread ratio = CleanOverPlanted(dtype, bytes, kind, settings);
        if (ratio.median < of_dtype.median) of_dtype = ratio;
      }
    report->Ratio(std::string("nan_blocks_over_clean_") + name, of_dtype, Style::kPercent, AtLeast(0.6));
    if (of_dtype.median < lowest.median) lowest = of_dtype;
  }
  report->Ratio("nan_blocks_over_clean", lowest, Style::kPercent, AtLeast(0.6), "the lowest of these");
}

void MeasureSmallTensors(const Settings& settings, Report* report) {
  constexpr int64_t kCount = 4096;
  constexpr size_t kItems = 1000;
  report->Section(
      "1000 fp32 tensors of 4096 elements (16 MB), one thread, hot as far as the last-level cache holds it");
  Buffer buffer(kItems * kCount * 4);
  buffer.FillNormal(DType::kFloat32);
  std::vector<kernels::BatchItem> items = Slices(buffer, kCount, kItems), tiny = Slices(buffer, 16, kItems);
  const TensorView whole = buffer.View(DType::kFloat32);
  Rounds rounds(Clock::kThreadCpu);
  const size_t batch = rounds.Add([&] { MeasureTogether(&items); });
  const size_t single = rounds.Add([&] { MeasureEach(&items); });
  const size_t tiny_batch = rounds.Add([&] { MeasureTogether(&tiny); });
  const size_t tiny_single = rounds.Add([&] { MeasureEach(&tiny); });
  const size_t one_piece = rounds.Add([&] { MeasureAll(whole); });
  const size_t read = rounds.Add([&] { Keep(PlainRead(buffer.data(), buffer.bytes())); });
  rounds.Run(settings.rounds);
  constexpr double kMicrosecondsEach = 1e6 / kItems;
  report->Figure("small_batch_ms", Scaled(rounds.SecondsOf(batch), 1e3), "ms", AtMost(1), "one MeasureBatch");
  report->Figure("small_single_ms", Scaled(rounds.SecondsOf(single), 1e3), "ms", AtMost(1), "1000 times Measure");
  report->Figure("fixed_us_batch", Scaled(rounds.SecondsOf(tiny_batch), kMicrosecondsEach), "us", AtMost(0.2),
                 "a tensor of 16 elements in a MeasureBatch of 1000");
  report->Figure("fixed_us_single", Scaled(rounds.SecondsOf(tiny_single), kMicrosecondsEach), "us", AtMost(0.2),
                 "a tensor of 16 elements, Measure");
  report->Ratio("small_batch_over_one_piece", rounds.Ratio(one_piece, batch), Style::kPercent, {},
                "speed over that of the same 16 MB as one tensor");
  report->Ratio("small_batch_over_read", rounds.Ratio(read, batch), Style::kPercent);
}

}  // namespace stepwatch::bench
