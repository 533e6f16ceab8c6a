// Computes the same numbers by torch's own operations, called from C++, one pass over memory each, on three sets of
// tensors. six_torch_ops.py calls them from Python, as Python monitors do, which adds about ten microseconds per
// tensor.
//
// One thread. The C library keeps freed memory, as a caching allocator would: otherwise page faults of temporaries
// would dominate the operations.

#include <ATen/Parallel.h>
#include <malloc.h>
#include <torch/torch.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "bench/plain_read.h"
#include "bench/sections.h"
#include "front_ends/torch/tensor_view.h"
#include "kernels/kernels.h"

namespace stepwatch::bench {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Shapes = std::vector<std::vector<int64_t>>;

constexpr double kEps = 1e-8;

// 600 tensors of 4 K to 64 K elements, evenly spaced on a log scale: gradients of a small model.
Shapes SmallShapes() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(0, std::log(16));
  Shapes shapes;
  for (int i = 0; i < 600; ++i) shapes.push_back({4 * std::llround(1024 * std::exp(draw(random)))});
  return shapes;
}

// 16 M elements in one piece: a flat buffer.
Shapes BigShapes() {
  return {{int64_t{1} << 24}};
}

// The 300 weights of a Llama-like model with grouped keys, 33 layers, 50 M elements.
Shapes LlamaShapes() {
  constexpr int64_t kWidth = 320, kHidden = 880, kKeys = 80, kVocabulary = 21248;
  Shapes shapes{{kVocabulary, kWidth}};
  for (int layer = 0; layer < 33; ++layer)
    shapes.insert(shapes.end(), {{kWidth, kWidth},
                                 {kKeys, kWidth},
                                 {kKeys, kWidth},
                                 {kWidth, kWidth},
                                 {kHidden, kWidth},
                                 {kHidden, kWidth},
                                 {kWidth, kHidden},
                                 {kWidth},
                                 {kWidth}});
  shapes.insert(shapes.end(), {{kWidth}, {kVocabulary, kWidth}});
  return shapes;
}

// Computed like msProbe: sums over a copy in double precision, zeros as a share, only NaN.
struct SixNumbers {
  torch::Tensor min, max, mean, norm, zeros, nans;
};
// Each in a separate statement, so that its temporaries are freed before the next allocation.
SixNumbers SixOperations(const torch::Tensor& t) {
  SixNumbers six;
  six.min = torch::min(t);
  six.max = torch::max(t);
  six.mean = torch::mean(t.to(torch::kDouble));
  six.norm = torch::norm(t.to(torch::kDouble), 2);
  six.zeros = torch::sum(torch::abs(t) < kEps) / t.numel();
  six.nans = torch::isnan(t).sum();
  return six;
}

// Torch's fastest way for four of them: three passes and no copies.
void BestOperations(const torch::Tensor& t) {
  Keep(torch::aminmax(t));
  Keep(at::linalg_vector_norm(t, 2, at::OptionalIntArrayRef(), false, torch::kDouble));
  Keep(torch::mean(t, torch::kDouble));
}

Tensors MakeSet(const Shapes& shapes, torch::Dtype dtype) {
  torch::manual_seed(1);
  Tensors tensors;
  for (const std::vector<int64_t>& shape : shapes) tensors.push_back(torch::randn(shape).to(dtype));
  return tensors;
}

std::vector<kernels::BatchItem> ItemsOf(const Tensors& tensors) {
  std::vector<kernels::BatchItem> items(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) items[i].tensor = torch_front::See(tensors[i]).view;
  return items;
}

// Checks that both sides return the same numbers; otherwise the comparison is invalid.
void CheckAgainst(const Tensors& tensors, std::vector<kernels::BatchItem> items) {
  kernels::MeasureBatch(items.data(), items.size(), {kEps, EpsMode::kParity}, nullptr);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SixNumbers six = SixOperations(tensors[i]);
    const Statistics& ours = items[i].statistics;
    const bool same = ours.min == six.min.item<double>() && ours.max == six.max.item<double>() &&
                      ours.nans == six.nans.item<int64_t>() && std::abs(ours.zeros - six.zeros.item<double>()) < 1e-6 &&
                      std::abs(ours.norm - six.norm.item<double>()) <= 1e-12 * ours.norm &&
                      std::abs(ours.mean - six.mean.item<double>()) <= 1e-12 * ours.norm;
    if (!same) throw std::runtime_error("torch's operations give other numbers for tensor " + std::to_string(i));
  }
}

struct Set {
  const char* name;
  Shapes shapes;
};

// Returns the time of six operations over that of Stepwatch.
Spread CompareSet(const Set& set, torch::Dtype dtype, const std::string& suffix, const Settings& settings,
                  Report* report) {
  const Tensors tensors = MakeSet(set.shapes, dtype);
  std::vector<kernels::BatchItem> items = ItemsOf(tensors);
  CheckAgainst(tensors, items);
  size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += tensor.nbytes();
  const torch::Tensor flat = torch::randint(int64_t{1} << 62, static_cast<int64_t>(bytes / 512) * 64, torch::kLong);

  Rounds rounds(Clock::kThreadCpu);
  const size_t ours = rounds.Add([&] {
    kernels::MeasureBatch(items.data(), items.size(), {kEps, EpsMode::kParity}, nullptr);
  });
  const size_t read = rounds.Add([&] { Keep(PlainRead(flat.const_data_ptr(), flat.nbytes())); });
  const size_t six = rounds.Add([&] {
    for (const torch::Tensor& tensor : tensors) Keep(SixOperations(tensor));
  });
  const size_t best = rounds.Add([&] {
    for (const torch::Tensor& tensor : tensors) BestOperations(tensor);
  });
  const size_t foreach_native = rounds.Add([&] { Keep(at::_foreach_norm(tensors, 2)); });
  const size_t foreach_double = rounds.Add([&] { Keep(at::_foreach_norm(tensors, 2, torch::kDouble)); });
  rounds.Run(settings.rounds);

  const std::string tail = std::string("_") + set.name + suffix;
  const auto times = [&](size_t action, const char* what) {
    report->Ratio(what + tail, rounds.Ratio(action, ours), Style::kTimes);
  };
  const Spread ratio = rounds.Ratio(six, ours);
  char detail[128];
  std::snprintf(detail, sizeof detail, "%.1f ms, %.1f plain reads of %zu MB; ours %.2f ms, %.2f plain reads",
                rounds.SecondsOf(six).median * 1e3, rounds.Ratio(six, read).median, bytes / 1000000,
                rounds.SecondsOf(ours).median * 1e3, rounds.Ratio(ours, read).median);
  report->Ratio("six_torch_ops_from_cpp" + tail, ratio, Style::kTimes, AtLeast(dtype == torch::kFloat ? 20 : 40),
                detail);
  times(best, "aminmax_vector_norm_mean");
  times(foreach_native, "foreach_norm");
  times(foreach_double, "foreach_norm_double");
  return ratio;
}

}  // namespace

void MeasureAgainstTorch(const Settings& settings, Report* report) {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  at::set_num_threads(1);
  const Set sets[] = {{"small", SmallShapes()}, {"big", BigShapes()}, {"llama", LlamaShapes()}};
  const std::pair<torch::Dtype, std::string> dtypes[] = {{torch::kFloat, ""}, {torch::kBFloat16, "_bf16"}};
  for (const auto& [dtype, suffix] : dtypes) {
    report->Section(std::string("torch's time over that of all our statistics, one thread, ") +
                    (suffix.empty() ? "fp32" : "bf16"));
    Spread lowest{1e300, 0, 0};
    for (const Set& set : sets) {
      const Spread ratio = CompareSet(set, dtype, suffix, settings, report);
      if (ratio.median < lowest.median) lowest = ratio;
    }
    report->Ratio("six_torch_ops_from_cpp_over_ours" + suffix, lowest, Style::kTimes, AtLeast(suffix.empty() ? 20 : 40),
                  "the lowest of the sets");
  }
}

}  // namespace stepwatch::bench
