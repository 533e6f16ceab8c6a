#include "src/step/part_clock.h"

#include <algorithm>

namespace stepwatch::step {
namespace {

constexpr unsigned kPartBits = 2;
constexpr unsigned kTimeShift = kPartBits + 1;
static_assert(kStepPartCount <= (1 << kPartBits));

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
  seen_[part].store(true, std::memory_order_relaxed);
  has_times_.store(true, std::memory_order_release);
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
  if (!has_times_.load(std::memory_order_acquire) &&
      Unpack(state_.load(std::memory_order_acquire)).part == StepPart::kRest)
    return {};
  const State last = Switch(now_ns, [](State state) {
    if (state.part != StepPart::kData) state.part = StepPart::kRest;
    return state;
  });
  // First, so that a time that is added meanwhile has its mark.
  has_times_.store(false, std::memory_order_seq_cst);
  std::array<int64_t, kParts> ns{};
  for (size_t i = 0; i < kParts; ++i) {
    ns[i] = ns_[i].exchange(0, std::memory_order_relaxed);
    if (!seen_[i].exchange(false, std::memory_order_relaxed)) ns[i] = PartTimes::kAbsent;
  }
  const auto of = [&ns](StepPart part) { return ns[static_cast<size_t>(part)]; };
  if (last.part == StepPart::kOptimizer || of(StepPart::kUnknown) != PartTimes::kAbsent) return {};
  return {of(StepPart::kData), of(StepPart::kOptimizer)};
}

}  // namespace stepwatch::step
