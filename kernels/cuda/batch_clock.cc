#include "kernels/cuda/batch_clock.h"

namespace stepwatch::kernels::cuda {
namespace {

// Fixed cost of measuring a tensor, in bytes that could be read in that time.
constexpr uint64_t kBytesOfTensor = 256 << 10;

uint64_t WeightOf(const TensorView& tensor) {
  const int64_t bytes = tensor.numel * static_cast<int64_t>(ElementSize(tensor.dtype));
  return kBytesOfTensor + static_cast<uint64_t>(bytes > 0 ? bytes : 0);
}

}  // namespace

size_t BatchClock::Begin(Driver* driver, const DeviceItem* items, size_t count, Stream stream) noexcept {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t weight = WeightOf(items[i].tensor);
    untimed_bytes_[items[i].account % untimed_bytes_.size()] += weight;
    bytes += weight;
  }
  if (count == 1 && singles_++ % kSinglesPerTimed != 0) return kNoPair;
  Pair& pair = pairs_[next_];
  if (pair.is_under_way.load(std::memory_order_acquire) || !driver->Mark(2 * next_, stream)) return kNoPair;
  pair.bytes = untimed_bytes_;
  pair.timed_bytes = bytes;
  return next_;
}

void BatchClock::End(Driver* driver, size_t pair, Stream stream) noexcept {
  if (pair == kNoPair || !driver->Mark(2 * pair + 1, stream)) return;
  untimed_bytes_ = {};
  pairs_[pair].is_under_way.store(true, std::memory_order_release);
  next_ = (next_ + 1) % kPairs;
}

void BatchClock::TakeTimes(Driver* driver, DeviceTimes* ns) noexcept {
  for (size_t i = 0; i < kPairs; ++i) {
    Pair& pair = pairs_[next_read_];
    uint64_t elapsed_ns = 0;
    if (!pair.is_under_way.load(std::memory_order_acquire) ||
        !driver->Elapsed(2 * next_read_, 2 * next_read_ + 1, &elapsed_ns))
      return;
    const double each = static_cast<double>(elapsed_ns) / static_cast<double>(pair.timed_bytes);
    for (size_t account = 0; account < ns->size(); ++account)
      (*ns)[account] += static_cast<uint64_t>(each * static_cast<double>(pair.bytes[account]));
    pair.is_under_way.store(false, std::memory_order_release);
    next_read_ = (next_read_ + 1) % kPairs;
  }
}

}  // namespace stepwatch::kernels::cuda
