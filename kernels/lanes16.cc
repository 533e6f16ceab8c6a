#include "kernels/lanes16.h"

#include <algorithm>
#include <cmath>

#include "kernels/layout.h"
#include "kernels/totals.h"

namespace stepwatch::kernels::lanes16 {

extern const Level kBaseline;
extern const Level kAvx2;
extern const Level kAvx512;

namespace {

static_assert(kWidth == kLanes);

constexpr int64_t kBlockElements =
    512;  // of data that is not flat, copied at once: small enough for the stack and the L1
static_assert(kBlockElements % kWidth == 0 && kChunkElements % kBlockElements == 0);

const Loops& LoopsFor(const Level& level, DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return level.float64;
    case DType::kFloat32: return level.float32;
    case DType::kFloat16: return level.float16;
    default: return level.bfloat16;
  }
}

State EmptyState() {
  State state{};
  std::fill_n(state.min, kWidth, std::numeric_limits<double>::infinity());
  std::fill_n(state.max, kWidth, -std::numeric_limits<double>::infinity());
  return state;
}

double Fold(const double (&lanes)[kWidth]) {
  std::array<double, kLanes> copy;
  std::copy_n(lanes, kWidth, copy.begin());
  return FoldLanes(copy);
}

// One chunk on its way into the totals.
class Chunk {
 public:
  Chunk(const Loops& loops, double threshold, Totals* totals)
      : loops_(loops), threshold_(threshold), totals_(totals), state_(EmptyState()) {}

  // A sum of squares that is finite proves that all was finite so far; only otherwise the data is looked at again.
  void Feed(const void* data, int64_t count) {
    loops_.feed(data, count, threshold_, &state_);
    if (std::isfinite(Fold(state_.sum_of_squares))) return;
    const NonFinite found = loops_.count_non_finite(data, count);
    totals_->nans += found.nans;
    totals_->infs += found.infs;
  }

  void Close() {
    totals_->sum += Fold(state_.sum);
    totals_->sum_of_squares += Fold(state_.sum_of_squares);
    totals_->min = std::min(totals_->min, *std::min_element(state_.min, state_.min + kWidth));
    totals_->max = std::max(totals_->max, *std::max_element(state_.max, state_.max + kWidth));
    for (int64_t zeros : state_.zeros) totals_->zeros += zeros;
  }

 private:
  const Loops& loops_;
  double threshold_;
  Totals* totals_;
  State state_;
};

Totals MeasureFlat(const Loops& loops, const Layout& layout, int element_size, double threshold) {
  Totals totals;
  for (int64_t done = 0; done < layout.count; done += kChunkElements) {
    Chunk chunk(loops, threshold, &totals);
    chunk.Feed(layout.data + done * element_size, std::min(kChunkElements, layout.count - done));
    chunk.Close();
  }
  return totals;
}

Totals MeasureGathered(const Loops& loops, const Layout& layout, int element_size, double threshold) {
  alignas(64) std::byte block[kBlockElements * sizeof(double)];
  Totals totals;
  Cursor cursor(layout, element_size);
  for (int64_t left = layout.count; left > 0;) {
    Chunk chunk(loops, threshold, &totals);
    for (int64_t room = std::min(kChunkElements, left); room > 0;) {
      const int64_t count = std::min(kBlockElements, room);
      cursor.Gather(count, block);
      chunk.Feed(block, count);
      room -= count;
      left -= count;
    }
    chunk.Close();
  }
  return totals;
}

}  // namespace

std::vector<const Level*> AvailableLevels() {
  std::vector<const Level*> levels;
#if defined(STEPWATCH_LANES16_X86)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    levels.push_back(&kAvx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) levels.push_back(&kAvx2);
#endif
  levels.push_back(&kBaseline);
  return levels;
}

bool Handles(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

Status Measure(const Level& level, const TensorView& tensor, const MeasureOptions& options, Statistics* statistics) {
  Layout layout;
  if (Status status = CanonicalLayout(tensor, &layout); !status.ok()) return status;
  const auto measure = layout.flat() ? MeasureFlat : MeasureGathered;
  const Totals totals =
      measure(LoopsFor(level, tensor.dtype), layout, ElementSize(tensor.dtype), Threshold(tensor.dtype, options));
  *statistics = Finish(totals, layout, tensor.dtype);
  return Status();
}

Status SignAgreement(const Level& level, const TensorView& a, const TensorView& b, double* agreement) {
  Layout layout_a, layout_b;
  if (Status status = LogicalLayout(a, &layout_a); !status.ok()) return status;
  if (Status status = LogicalLayout(b, &layout_b); !status.ok()) return status;
  if (!SameShape(a, b)) return *agreement = 0, Status();
  const Loops& loops = LoopsFor(level, a.dtype);
  if (DenseAlike(a, b)) return *agreement = Agreement(loops.multiply_signs(a.data, b.data, a.numel), a.numel), Status();
  alignas(64) std::byte block_a[kBlockElements * sizeof(double)];
  alignas(64) std::byte block_b[kBlockElements * sizeof(double)];
  Cursor cursor_a(layout_a, ElementSize(a.dtype));
  Cursor cursor_b(layout_b, ElementSize(b.dtype));
  int64_t sum = 0;
  for (int64_t left = a.numel; left > 0; left -= std::min(kBlockElements, left)) {
    const int64_t count = std::min(kBlockElements, left);
    cursor_a.Gather(count, block_a);
    cursor_b.Gather(count, block_b);
    sum += loops.multiply_signs(block_a, block_b, count);
  }
  *agreement = Agreement(sum, a.numel);
  return Status();
}

}  // namespace stepwatch::kernels::lanes16
