#include "src/device/devices.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace stepwatch::device {
namespace {

constexpr uint8_t kRefused = 1;      // the device rejected a launch
constexpr uint8_t kNotMeasured = 2;  // the engine does not support the dtype or layout
constexpr uint8_t kContradicts = 4;  // the view is inconsistent
constexpr uint8_t kNoEngine = 8;
constexpr uint8_t kNoSlot = 16;    // no slot is left for a captured observation
constexpr uint8_t kOtherEps = 32;  // captured with an eps other than the plan's

uint8_t BitOf(StatusCode code) {
  if (code == StatusCode::kUnavailable) return kRefused;
  return code == StatusCode::kInvalid ? kContradicts : kNotMeasured;
}

constexpr const char* kConsequence = "; such tensors have no rows and are counted as dropped (unsupported)";

std::string Sentence(const std::string& place, uint8_t trouble, const std::string& reason) {
  switch (trouble) {
    case kNoEngine: return "tensors " + place + " cannot be measured: " + reason + kConsequence;
    case kRefused: return "the device could not measure a tensor " + place + kConsequence;
    case kContradicts: return "the description of a tensor " + place + " contradicts itself" + kConsequence;
    case kNoSlot:
      return "captured CUDA graphs observe more tensors " + place +
             " than Options::cuda_graph_slots allows; the surplus has no rows and is counted as dropped (unsupported) "
             "once, when it is captured";
    case kOtherEps:
      return "captured CUDA graphs " + place +
             " count zeros with the eps of the plan under which they were captured; under another eps their zeros are "
             "nan until they are captured again";
    default: return "a tensor " + place + " has a dtype or a layout that cannot be measured there" + kConsequence;
  }
}

}  // namespace

RetiredTickets::RetiredTickets(size_t tickets)
    : mask_(std::bit_ceil(std::max<size_t>(tickets, 1)) - 1), cells_(new std::atomic<uint64_t>[mask_ + 1]) {
  for (size_t i = 0; i <= mask_; ++i) cells_[i].store(0, std::memory_order_relaxed);
}

void RetiredTickets::Add(uint64_t ticket) noexcept {
  // The limit guards against an engine with more tickets than announced: the surplus is never given back.
  for (size_t tries = 0; tries <= mask_; ++tries) {
    uint64_t free = 0;
    std::atomic<uint64_t>& cell = cells_[next_.fetch_add(1, std::memory_order_relaxed) & mask_];
    if (cell.compare_exchange_strong(free, ticket + 1, std::memory_order_release, std::memory_order_relaxed)) break;
  }
  waiting_.fetch_add(1, std::memory_order_release);
}

Devices::Devices(MakeDeviceEngine make, size_t results_max)
    : make_(std::move(make)), results_max_(std::bit_ceil(std::max<size_t>(results_max, 1))) {}

void Devices::OthersMeasure() noexcept {
  for (Slot& slot : slots_) slot.reported |= kNoEngine;
}

kernels::DeviceEngine* Devices::Get(Device device) noexcept {
  if (device.index < 0 || device.index >= kDevicesMax) return nullptr;
  Slot& slot = slots_[static_cast<uint8_t>(device.index)];
  kernels::DeviceEngine* engine = slot.engine.load(std::memory_order_acquire);
  if (engine != nullptr || slot.failed.load(std::memory_order_acquire)) return engine;
  return Make(device.index);
}

kernels::DeviceEngine* Devices::Make(int index) noexcept {
  const base::MutexLock lock(&making_);
  Slot& slot = slots_[static_cast<size_t>(index)];
  if (slot.owned || slot.failed.load(std::memory_order_relaxed)) return slot.owned.get();
  try {
    auto made = make_ ? make_(index, results_max_)
                      : Status(StatusCode::kUnsupported, "this monitor has no engine for device memory");
    if (made.ok()) {
      slot.retired = std::make_unique<RetiredTickets>(results_max_);
      slot.graphs = std::make_unique<GraphTable>(made.value()->graph_slots());
      slot.owned = std::move(made).value();
    } else {
      slot.reason = made.status().message();
    }
  } catch (const std::exception& error) {
    slot.reason = error.what();
  } catch (...) {
    slot.reason = "an unknown exception";
  }
  if (slot.owned) {
    slot.engine.store(slot.owned.get(), std::memory_order_release);
  } else {
    slot.failed.store(true, std::memory_order_release);
    slot.diagnostics.fetch_or(kNoEngine, std::memory_order_release);
    noted_.fetch_add(1, std::memory_order_release);
  }
  return slot.owned.get();
}

void Devices::Retire(int index, uint64_t ticket) noexcept {
  if (Slot& slot = slots_[static_cast<size_t>(index)]; slot.engine.load(std::memory_order_acquire) != nullptr)
    slot.retired->Add(ticket);
}

void Devices::Note(Device device, StatusCode code) noexcept {
  if (code == StatusCode::kOk || code == StatusCode::kExhausted) return;
  if (device.kind == DeviceKind::kCpu) return Note(&cpu_, BitOf(code));
  if (device.index >= 0 && device.index < kDevicesMax) Note(&slots_[static_cast<uint8_t>(device.index)], BitOf(code));
}

void Devices::Keep(int index, size_t slot, const CapturedObservation& observation) noexcept {
  slots_[static_cast<size_t>(index)].graphs->Put(slot, observation);
  captured_.fetch_or(uint64_t{1} << index, std::memory_order_release);
}

void Devices::NoteNoSlot(int index) noexcept {
  Note(&slots_[static_cast<size_t>(index)], kNoSlot);
}

void Devices::NoteRefusal(int index, StatusCode code) noexcept {
  if (code == StatusCode::kUnavailable) Note(&slots_[static_cast<size_t>(index)], kRefused);
}

void Devices::NoteOtherEps(int index) noexcept {
  Note(&slots_[static_cast<size_t>(index)], kOtherEps);
}

void Devices::Note(Slot* slot, uint8_t trouble) noexcept {
  const uint8_t known = slot->diagnostics.load(std::memory_order_relaxed);
  if ((known & (trouble | kNoEngine)) != 0) return;
  slot->diagnostics.fetch_or(trouble, std::memory_order_release);
  noted_.fetch_add(1, std::memory_order_release);
}

kernels::DeviceEngine* Devices::Made(int index) noexcept {
  return slots_[static_cast<size_t>(index)].engine.load(std::memory_order_acquire);
}

void Devices::Sweep() noexcept {
  for (Slot& slot : slots_) {
    kernels::DeviceEngine* engine = slot.engine.load(std::memory_order_acquire);
    if (engine != nullptr) slot.retired->TakeAll([engine](uint64_t ticket) { engine->Discard(ticket); });
  }
}

void Devices::TakeTimes(kernels::DeviceTimes* ns) noexcept {
  for (Slot& slot : slots_)
    if (kernels::DeviceEngine* engine = slot.engine.load(std::memory_order_acquire)) engine->TakeTimes(ns);
}

std::vector<std::string> Devices::TakeDiagnostics() {
  const uint32_t noted = noted_.load(std::memory_order_acquire);
  if (noted == seen_noted_) return {};
  std::vector<std::string> sentences;
  const base::MutexLock lock(&making_);  // guards the reasons
  const auto report = [&sentences](const std::string& place, Slot* slot) {
    const uint8_t fresh = slot->diagnostics.load(std::memory_order_acquire) & ~slot->reported;
    for (const uint8_t trouble : {kNoEngine, kRefused, kContradicts, kNotMeasured, kNoSlot, kOtherEps})
      if ((fresh & trouble) != 0) sentences.push_back(Sentence(place, trouble, slot->reason));
    slot->reported |= fresh;
  };
  report("in CPU memory", &cpu_);
  for (int i = 0; i < kDevicesMax; ++i) report("on CUDA device " + std::to_string(i), &slots_[static_cast<size_t>(i)]);
  seen_noted_ = noted;
  return sentences;
}

}  // namespace stepwatch::device
