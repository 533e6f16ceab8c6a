// A device that does as the test says: it takes memory of the host for its own, finishes measurements when it is told
// to, in any order, or never, and keeps the books of its tickets.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device_engine.h"
#include "src/stats/devices.h"

namespace stepwatch::stats {

class FakeDevice {
 public:
  explicit FakeDevice(size_t slots) : slots_(slots) { queue_.reserve(slots); }

  // --- what the test says ---
  // Every measurement is finished as soon as it is asked for.
  void FinishAtOnce() { at_once_ = true; }
  void Refuse(StatusCode code) { refusal_ = code; }
  // Finishes the oldest or the newest measurements that are under way.
  void FinishOldest(size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (; count > 0 && !queue_.empty(); --count, queue_.erase(queue_.begin())) slots_[queue_.front()].Finish();
  }
  void FinishNewest(size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (; count > 0 && !queue_.empty(); --count, queue_.pop_back()) slots_[queue_.back()].Finish();
  }
  void FinishAll() { FinishOldest(~size_t{0}); }

  // --- what became of it ---
  // Tickets that were neither harvested nor abandoned.
  size_t outstanding() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t count = 0;
    for (const Slot& slot : slots_) count += slot.state == State::kAsked || slot.state == State::kFinished;
    return count;
  }
  uint64_t harvested() const { return harvested_; }
  uint64_t abandoned() const { return abandoned_; }
  int launches() const { return launches_; }
  // Empty, or how the face of device engines was misused.
  std::string misuse() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return misuse_;
  }

  // --- what the engine does ---
  StatusCode Ask(const Statistics& result, uint64_t* ticket) noexcept {
    if (refusal_ != StatusCode::kOk) return refusal_;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.state != State::kFree) continue;
      slot.result = result;
      slot.state = State::kAsked;
      if (at_once_)
        slot.Finish();
      else
        queue_.push_back(i);
      *ticket = ++slot.generation << 32 | i;
      return StatusCode::kOk;
    }
    return StatusCode::kExhausted;
  }
  bool Harvest(uint64_t ticket, Statistics* result) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = Find(ticket);
    if (slot == nullptr || slot->state != State::kFinished) return false;
    *result = slot->result;
    slot->state = State::kFree;
    ++harvested_;
    return true;
  }
  void Abandon(uint64_t ticket) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = Find(ticket);
    if (slot == nullptr) return;
    slot->state = slot->state == State::kFinished ? State::kFree : State::kAbandoned;
    ++abandoned_;
  }
  void CountLaunch() noexcept { ++launches_; }

 private:
  enum class State : uint8_t { kFree, kAsked, kFinished, kAbandoned };
  struct Slot {
    State state = State::kFree;
    uint64_t generation = 0;
    Statistics result;
    void Finish() { state = state == State::kAbandoned ? State::kFree : State::kFinished; }
  };

  // Only the reader comes by here.
  Slot* Find(uint64_t ticket) {
    if (reader_ == std::thread::id()) reader_ = std::this_thread::get_id();
    if (reader_ != std::this_thread::get_id()) misuse_ = "two threads read";
    const size_t index = ticket & 0xffffffff;
    Slot* slot = index < slots_.size() ? &slots_[index] : nullptr;
    const bool known = slot != nullptr && slot->generation == ticket >> 32 && slot->state != State::kFree &&
                       slot->state != State::kAbandoned;
    if (!known) misuse_ = "a ticket that is not there, or is used up";
    return known ? slot : nullptr;
  }

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<size_t> queue_;  // under way, oldest first
  std::thread::id reader_;
  std::string misuse_;
  std::atomic<bool> at_once_{false};
  std::atomic<StatusCode> refusal_{StatusCode::kOk};
  std::atomic<uint64_t> harvested_{0}, abandoned_{0};
  std::atomic<int> launches_{0};
};

class FakeDeviceEngine final : public kernels::DeviceEngine {
 public:
  explicit FakeDeviceEngine(std::shared_ptr<FakeDevice> device) : device_(std::move(device)) {}

  void Enqueue(kernels::DeviceItem* items, size_t count, const kernels::MeasureOptions& options) noexcept override {
    device_->CountLaunch();
    for (size_t i = 0; i < count; ++i) {
      items[i].code = StatusCode::kUnsupported;
      if (items[i].tensor.dtype == DType::kOther) continue;
      kernels::BatchItem item;
      item.tensor = OnHost(items[i].tensor);
      kernels::MeasureBatch(&item, 1, options, nullptr);
      items[i].code = item.code == StatusCode::kOk ? device_->Ask(item.statistics, &items[i].ticket) : item.code;
    }
  }
  StatusCode EnqueueAgreement(const TensorView& a, const TensorView& b, uint64_t* ticket) noexcept override {
    device_->CountLaunch();
    Statistics result;
    const Status status = kernels::SignAgreement(OnHost(a), OnHost(b), &result.mean);
    return status.ok() ? device_->Ask(result, ticket) : status.code();
  }
  bool Harvest(uint64_t ticket, Statistics* statistics) noexcept override {
    return device_->Harvest(ticket, statistics);
  }
  void Abandon(uint64_t ticket) noexcept override { device_->Abandon(ticket); }

 private:
  static TensorView OnHost(TensorView view) {
    view.device = {};
    return view;
  }
  const std::shared_ptr<FakeDevice> device_;
};

// The machine's devices; those beyond `count` cannot be used.
class FakeDevices {
 public:
  explicit FakeDevices(int count, size_t slots = 16384) {
    for (int i = 0; i < count; ++i) devices_.push_back(std::make_shared<FakeDevice>(slots));
  }
  MakeDeviceEngine Maker() {
    return [devices = devices_, made = made_](int index, size_t) -> Result<std::unique_ptr<kernels::DeviceEngine>> {
      ++*made;
      if (index >= static_cast<int>(devices.size()))
        return Status(StatusCode::kUnsupported, "this machine has " + std::to_string(devices.size()) + " devices");
      return std::unique_ptr<kernels::DeviceEngine>(
          std::make_unique<FakeDeviceEngine>(devices[static_cast<size_t>(index)]));
    };
  }
  FakeDevice& operator[](size_t index) { return *devices_[index]; }
  size_t count() const { return devices_.size(); }
  int asked_for() const { return *made_; }

 private:
  std::vector<std::shared_ptr<FakeDevice>> devices_;
  std::shared_ptr<std::atomic<int>> made_ = std::make_shared<std::atomic<int>>(0);
};

inline TensorView OnDevice(TensorView view, int index = 0) {
  view.device = {DeviceKind::kCuda, static_cast<int8_t>(index)};
  return view;
}

}  // namespace stepwatch::stats
