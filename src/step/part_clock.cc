#include "src/step/part_clock.h"

#include <algorithm>
#include <utility>

namespace stepwatch::step {
namespace {

constexpr unsigned kPartBits = 3;
constexpr unsigned kTimeShift = kPartBits + 1;
static_assert(kStepPartCount <= (1 << kPartBits));

constexpr bool IsInner(StepPart part) {
  return part == StepPart::kForward || part == StepPart::kBackward || part == StepPart::kCommunication;
}

}  // namespace

uint64_t PartClock::Pack(State state) noexcept {
  return static_cast<uint64_t>(state.since_ns) << kTimeShift | uint64_t{state.is_training} << kPartBits |
         static_cast<uint64_t>(state.part);
}

PartClock::State PartClock::Unpack(uint64_t word) noexcept {
  return {static_cast<StepPart>(word & ((1U << kPartBits) - 1)), ((word >> kPartBits) & 1) != 0,
          static_cast<int64_t>(word >> kTimeShift)};
}

template <class Change>
PartClock::State PartClock::Switch(int64_t now_ns, const Change& change) noexcept {
  uint64_t word = state_.load(std::memory_order_acquire);
  State before, after;
  do {
    before = Unpack(word);
    after = change(before);
    after.since_ns = std::max(now_ns, before.since_ns);  // another thread may have read its clock later
  } while (!state_.compare_exchange_weak(word, Pack(after), std::memory_order_acq_rel));
  if (!before.is_training) return before;
  const auto part = static_cast<size_t>(before.part);
  ns_[part].fetch_add(after.since_ns - before.since_ns, std::memory_order_relaxed);
  seen_.fetch_or(uint32_t{1} << part, std::memory_order_release);
  return before;
}

StepPart PartClock::Enter(StepPart part, int64_t now_ns) noexcept {
  return Switch(now_ns,
                [part](State state) {
                  state.part = part;
                  return state;
                })
      .part;
}

void PartClock::SetTraining(bool is_training, int64_t now_ns) noexcept {
  (void)Switch(now_ns, [is_training](State state) {
    state.is_training = is_training;
    return state;
  });
}

PartTimes PartClock::EndStep(int64_t now_ns) noexcept {
  // The time of the rest is not kept, so a step without other parts costs two loads.
  if (seen_.load(std::memory_order_acquire) == 0 &&
      Unpack(state_.load(std::memory_order_acquire)).part == StepPart::kRest)
    return {};
  const State last = Switch(now_ns, [](State state) {
    if (state.part != StepPart::kData) state.part = StepPart::kRest;
    return state;
  });
  // First, so that a time that is added meanwhile has its mark.
  const uint32_t seen = seen_.exchange(0, std::memory_order_seq_cst);
  std::array<int64_t, kParts> ns{};
  for (size_t i = 0; i < kParts; ++i)
    ns[i] = (seen >> i & 1) != 0 ? ns_[i].exchange(0, std::memory_order_relaxed) : PartTimes::kAbsent;
  const bool was_cut = std::exchange(is_cut_, IsInner(last.part));
  const auto of = [&ns](StepPart part) { return ns[static_cast<size_t>(part)]; };
  if (last.part == StepPart::kOptimizer || of(StepPart::kUnknown) != PartTimes::kAbsent) return {};
  PartTimes times{of(StepPart::kData), of(StepPart::kOptimizer)};
  if (was_cut || is_cut_) return times;
  times.forward_ns = of(StepPart::kForward);
  times.backward_ns = of(StepPart::kBackward);
  times.communication_ns = of(StepPart::kCommunication);
  return times;
}

}  // namespace stepwatch::step
