#include "kernels/cpu_engine.h"

#include <algorithm>

#include "kernels/formats.h"
#include "kernels/histogram.h"
#include "kernels/layout.h"

namespace stepwatch::kernels::cpu {
namespace {

// Block size when gathering strided data: small enough for the stack and the L1.
constexpr int64_t kGatherElements = 1024;
static_assert(kGatherElements % kLanes == 0 && kChunkElements % kGatherElements == 0);
using GatherBlock = std::byte[kGatherElements * sizeof(double)];

// Measures the chunk that begins at element `first` of a layout. `histogram` may be null.
Totals MeasureChunk(const Loops& loops, const Limits& limits, const Layout& layout, DType dtype, int64_t first,
                    Histogram* histogram) {
  ChunkState state;
  const int64_t count = std::min(kChunkElements, layout.count - first);
  if (layout.flat()) {
    const std::byte* data = layout.data + first * ElementSize(dtype);
    loops.feed(data, count, limits, &state);
    if (histogram != nullptr) histogram->Add(dtype, data, count, layout.repeat);
  } else {
    alignas(64) GatherBlock block;
    Cursor cursor(layout, ElementSize(dtype), first);
    for (int64_t done = 0; done < count; done += kGatherElements) {
      const int64_t part = std::min(kGatherElements, count - done);
      cursor.Gather(part, block);
      loops.feed(block, part, limits, &state);
      if (histogram != nullptr) histogram->Add(dtype, block, part, layout.repeat);
    }
  }
  state.totals.sum = FoldLanes(state.sum);
  state.totals.sum_of_squares = FoldLanes(state.sum_of_squares);
  return state.totals;
}

Totals MeasureChunkOf(const Level& level, const TensorView& tensor, const MeasureOptions& options, int64_t first) {
  Layout layout;
  (void)CanonicalLayout(tensor, &layout);  // already validated by the caller
  return MeasureChunk(level.For(tensor.dtype), LimitsFor(tensor.dtype, options), layout, tensor.dtype, first, nullptr);
}

// Smaller batches are not worth waking another thread.
constexpr int64_t kParallelBytes = 256 << 10;

// Chunks of a batch, measured on several threads and joined in order. Pending chunks lie on the caller's stack.
class ChunkQueue {
 public:
  ChunkQueue(const Level& level, const MeasureOptions& options, ParallelFor parallel_for)
      : level_(level), options_(options), parallel_for_(parallel_for) {}

  void Add(BatchItem* item, const Layout& layout) {
    const int element_size = ElementSize(item->tensor.dtype);
    for (int64_t first = 0; first < layout.count; first += kChunkElements) {
      const int64_t count = std::min(kChunkElements, layout.count - first);
      waiting_[count_++] = {item, first, first + count == layout.count, bytes_, Totals{}};
      bytes_ += count * element_size;
      if (count_ == kWaiting) Flush();
    }
  }

  // Measures the pending chunks and joins them in order.
  void Flush() {
    if (bytes_ < kParallelBytes || count_ < 2) {
      MeasureRange(0, count_);
    } else {
      parallel_for_(kParts, &ChunkQueue::MeasureParts, this);
    }
    for (size_t i = 0; i < count_; ++i) Join(waiting_[i]);
    count_ = 0;
    bytes_ = 0;
  }

 private:
  static constexpr size_t kWaiting = 256;
  static constexpr int64_t kParts = 64;  // more than a step thread's helpers, so that each gets a similar share

  struct Chunk {
    BatchItem* item;
    int64_t first;
    bool last;
    int64_t bytes_before;
    Totals totals;
  };

  // Part i holds the chunks that begin in the i-th of kParts equal stretches of the bytes.
  static void MeasureParts(void* self, int64_t begin, int64_t end) {
    ChunkQueue& queue = *static_cast<ChunkQueue*>(self);
    const auto first_at = [&queue](int64_t part) {
      const auto behind = queue.waiting_.begin() + static_cast<std::ptrdiff_t>(queue.count_);
      return std::partition_point(queue.waiting_.begin(), behind, [&queue, part](const Chunk& chunk) {
        return chunk.bytes_before * kParts < part * queue.bytes_;
      });
    };
    queue.MeasureRange(static_cast<size_t>(first_at(begin) - queue.waiting_.begin()),
                       static_cast<size_t>(first_at(end) - queue.waiting_.begin()));
  }

  void MeasureRange(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      waiting_[i].totals = MeasureChunkOf(level_, waiting_[i].item->tensor, options_, waiting_[i].first);
  }

  void Join(const Chunk& chunk) {
    if (chunk.first == 0) joined_ = Totals{};
    JoinTotals(chunk.totals, &joined_);
    if (!chunk.last) return;
    Layout layout;
    (void)CanonicalLayout(chunk.item->tensor, &layout);
    chunk.item->statistics = Finish(joined_, layout, chunk.item->tensor.dtype);
  }

  const Level& level_;
  const MeasureOptions& options_;
  const ParallelFor parallel_for_;
  std::array<Chunk, kWaiting> waiting_;
  size_t count_ = 0;
  int64_t bytes_ = 0;
  Totals joined_;  // of the item whose chunks are being joined
};

// Checked before the queue is made, which takes some 30 KB of stack. Sums doubles, because the sizes in a view are not
// validated yet.
bool WorthThreads(const BatchItem* items, size_t count) {
  double bytes = 0;
  for (size_t i = 0; i < count; ++i)
    bytes += static_cast<double>(items[i].tensor.numel) * ElementSize(items[i].tensor.dtype);
  return bytes >= static_cast<double>(kParallelBytes);
}

int8_t SignOf(double x) {
  return static_cast<int8_t>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
}

void WriteSigns(DType dtype, const std::byte* data, int64_t count, int8_t* signs) {
  VisitFormat(dtype, [&](auto format) {
    for (int64_t i = 0; i < count; ++i)
      signs[i] = SignOf(
          static_cast<double>(format.Load(data + static_cast<size_t>(i) * sizeof(typename decltype(format)::Raw))));
  });
}

int64_t MultiplySigns(const Level& level, DType dtype_a, const std::byte* a, DType dtype_b, const std::byte* b,
                      int64_t count) {
  if (dtype_a == dtype_b) return level.For(dtype_a).multiply_signs(a, b, count);
  int8_t signs_a[kGatherElements], signs_b[kGatherElements];
  WriteSigns(dtype_a, a, count, signs_a);
  WriteSigns(dtype_b, b, count, signs_b);
  return level.For(DType::kInt8).multiply_signs(signs_a, signs_b, count);
}

}  // namespace

Status Measure(const Level& level, const TensorView& tensor, const MeasureOptions& options, Statistics* statistics,
               Histogram* histogram) {
  Layout layout;
  if (Status status = CanonicalLayout(tensor, &layout); !status.ok()) return status;
  const Limits limits = LimitsFor(tensor.dtype, options);
  Totals totals;
  for (int64_t first = 0; first < layout.count; first += kChunkElements)
    JoinTotals(MeasureChunk(level.For(tensor.dtype), limits, layout, tensor.dtype, first, histogram), &totals);
  *statistics = Finish(totals, layout, tensor.dtype);
  return Status();
}

void MeasureBatch(const Level& level, BatchItem* items, size_t count, const MeasureOptions& options,
                  ParallelFor parallel_for) {
  if (parallel_for == nullptr || !WorthThreads(items, count)) {
    for (size_t i = 0; i < count; ++i)
      items[i].code = Measure(level, items[i].tensor, options, &items[i].statistics).code();
    return;
  }
  ChunkQueue queue(level, options, parallel_for);
  for (size_t i = 0; i < count; ++i) {
    Layout layout;
    items[i].code = CanonicalLayout(items[i].tensor, &layout).code();
    if (items[i].code != StatusCode::kOk) continue;
    if (layout.count == 0) items[i].statistics = Finish(Totals{}, layout, items[i].tensor.dtype);
    queue.Add(&items[i], layout);
  }
  queue.Flush();
}

Status SignAgreement(const Level& level, const TensorView& a, const TensorView& b, double* agreement) {
  Layout layout_a, layout_b;
  if (Status status = LogicalLayout(a, &layout_a); !status.ok()) return status;
  if (Status status = LogicalLayout(b, &layout_b); !status.ok()) return status;
  if (!SameShape(a, b)) return *agreement = 0, Status();
  alignas(64) GatherBlock block_a, block_b;
  Cursor cursor_a(layout_a, ElementSize(a.dtype)), cursor_b(layout_b, ElementSize(b.dtype));
  int64_t sum = 0;
  if (a.dtype == b.dtype && DenseAlike(a, b)) {
    sum = level.For(a.dtype).multiply_signs(a.data, b.data, a.numel);
  } else {
    for (int64_t left = a.numel; left > 0; left -= std::min(kGatherElements, left)) {
      const int64_t count = std::min(kGatherElements, left);
      cursor_a.Gather(count, block_a);
      cursor_b.Gather(count, block_b);
      sum += MultiplySigns(level, a.dtype, block_a, b.dtype, block_b, count);
    }
  }
  *agreement = Agreement(sum, a.numel);
  return Status();
}

}  // namespace stepwatch::kernels::cpu
