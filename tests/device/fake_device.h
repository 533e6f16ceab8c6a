// A device under the control of a test: it uses memory of the host as its own, finishes measurements when it is told
// to, in any order, or never, and keeps the books of its tickets.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device_engine.h"
#include "src/device/devices.h"

namespace stepwatch::device {

class FakeDevice {
 public:
  explicit FakeDevice(size_t slots) : slots_(slots) { queue_.reserve(slots); }

  // --- the control of the test ---
  // Every measurement is finished as soon as it is asked for.
  void FinishAtOnce() { at_once_ = true; }
  void Refuse(StatusCode code) { refusal_ = code; }
  // The time of each measurement on the device from now on.
  void Take(std::chrono::nanoseconds of_each) { ns_of_each_ = static_cast<uint64_t>(of_each.count()); }
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

  // Observations on this stream from now on become part of a graph; null: captures end.
  void CaptureOn(void* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    capturing_ = stream;
  }
  // Runs all that was captured, or only the slots of one graph, on the replay stream.
  void Replay() { Replay(0, ~size_t{0}); }
  void Replay(size_t first, size_t end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Queue([this, first, end] {
      for (size_t slot = first; slot < end && slot < graph_.size() && on_; ++slot)
        graph_[slot].rows[step_ % kDepth] = {step_, graph_[slot].measure()};
    });
  }
  // The device stands still; whatever was queued by then is done before Resume returns.
  void Stall() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stalled_ = true;
  }
  void Resume() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stalled_ = false;
    for (const auto& work : stream_) work();
    stream_.clear();
  }
  // As while another stream captures: nothing may be queued on the replay stream.
  void Block(bool blocked) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocked_ = blocked;
  }

  // --- what became of it ---
  // Calls that reached the driver to end device steps and to switch.
  int graph_calls() const { return graph_calls_; }
  void* replay_stream() const { return replay_stream_; }
  bool graphs_on() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return on_;
  }
  // Tickets that were neither harvested nor discarded.
  size_t outstanding() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t count = 0;
    for (const Slot& slot : slots_) count += slot.state == State::kAsked || slot.state == State::kFinished;
    return count;
  }
  uint64_t harvested() const { return harvested_; }
  uint64_t discarded() const { return discarded_; }
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
  void Discard(uint64_t ticket) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = Find(ticket);
    if (slot == nullptr) return;
    slot->state = slot->state == State::kFinished ? State::kFree : State::kDiscarded;
    ++discarded_;
  }
  void AddTime(uint8_t account) { times_[account] += ns_of_each_; }
  void TakeTimes(kernels::DeviceTimes* ns) {
    for (size_t i = 0; i < times_.size(); ++i) (*ns)[i] += times_[i].exchange(0);
  }
  void CountLaunch() noexcept { ++launches_; }
  bool Captures(const void* stream) const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stream != nullptr && stream == capturing_;
  }
  StatusCode Capture(std::function<Statistics()> measure, uint64_t* slot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (refusal_ != StatusCode::kOk) return refusal_;
    if (graph_.size() == kGraphSlots) return StatusCode::kExhausted;
    *slot = graph_.size();
    graph_.push_back({std::move(measure), {}});
    return StatusCode::kOk;
  }
  StatusCode EndGraphStep(void* stream, uint64_t* ended) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++graph_calls_;
    replay_stream_ = stream;
    if (blocked_) return StatusCode::kUnsupported;
    if (refusal_ != StatusCode::kOk) return refusal_;
    *ended = steps_ended_++;
    Queue([this] { ++step_; });
    return StatusCode::kOk;
  }
  StatusCode SwitchGraphs(bool on) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++graph_calls_;
    if (blocked_) return StatusCode::kUnsupported;
    Queue([this, on] { on_ = on; });
    return StatusCode::kOk;
  }
  kernels::GraphAnswer HarvestGraph(uint32_t slot, uint64_t step, Statistics* statistics) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (step_ <= step) return kernels::GraphAnswer::kNotYet;
    const GraphRow& row = graph_[slot].rows[step % kDepth];
    if (row.step != UINT64_MAX && row.step > step) return kernels::GraphAnswer::kLost;
    if (row.step != step) return kernels::GraphAnswer::kNone;
    *statistics = row.result;
    return kernels::GraphAnswer::kThere;
  }

  static constexpr size_t kGraphSlots = 16;
  static constexpr size_t kDepth = 64;

 private:
  enum class State : uint8_t { kFree, kAsked, kFinished, kDiscarded };
  struct Slot {
    State state = State::kFree;
    uint64_t generation = 0;
    Statistics result;
    void Finish() { state = state == State::kDiscarded ? State::kFree : State::kFinished; }
  };

  struct GraphRow {
    uint64_t step = UINT64_MAX;  // nothing
    Statistics result{};
  };
  struct GraphSlot {
    std::function<Statistics()> measure;
    std::array<GraphRow, kDepth> rows;
  };

  // Work of the replay stream; the mutex is held.
  void Queue(std::function<void()> work) {
    if (stalled_)
      stream_.push_back(std::move(work));
    else
      work();
  }

  // Only the reader comes by here.
  Slot* Find(uint64_t ticket) {
    if (reader_ == std::thread::id()) reader_ = std::this_thread::get_id();
    if (reader_ != std::this_thread::get_id()) misuse_ = "two threads read";
    const size_t index = ticket & 0xffffffff;
    Slot* slot = index < slots_.size() ? &slots_[index] : nullptr;
    const bool known = slot != nullptr && slot->generation == ticket >> 32 && slot->state != State::kFree &&
                       slot->state != State::kDiscarded;
    if (!known) misuse_ = "a ticket that is not there, or is used up";
    return known ? slot : nullptr;
  }

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<size_t> queue_;  // under way, oldest first
  std::thread::id reader_;
  std::string misuse_;
  void* capturing_ = nullptr;
  std::atomic<void*> replay_stream_{nullptr};
  std::atomic<int> graph_calls_{0};
  bool blocked_ = false, stalled_ = false, on_ = true;
  uint64_t steps_ended_ = 0;  // queued
  uint64_t step_ = 0;         // the device's
  std::vector<std::function<void()>> stream_;
  std::deque<GraphSlot> graph_;
  std::atomic<bool> at_once_{false};
  std::atomic<StatusCode> refusal_{StatusCode::kOk};
  std::atomic<uint64_t> harvested_{0}, discarded_{0};
  std::atomic<uint64_t> ns_of_each_{0};
  std::array<std::atomic<uint64_t>, kernels::kDeviceAccounts> times_{};
  std::atomic<int> launches_{0};
};

class FakeDeviceEngine final : public kernels::DeviceEngine {
 public:
  explicit FakeDeviceEngine(std::shared_ptr<FakeDevice> device) : device_(std::move(device)) {}

  void Enqueue(kernels::DeviceItem* items, size_t count, const kernels::MeasureOptions& options) noexcept override {
    device_->CountLaunch();
    for (size_t i = 0; i < count; ++i) {
      items[i].code = StatusCode::kUnsupported;
      items[i].captured = device_->Captures(items[i].tensor.stream);
      if (items[i].tensor.dtype == DType::kOther) continue;
      if (items[i].captured) {
        const auto measure = [view = OnHost(items[i].tensor), options] {
          kernels::BatchItem item;
          item.tensor = view;
          kernels::MeasureBatch(&item, 1, options, nullptr);
          return item.statistics;
        };
        items[i].code = device_->Capture(measure, &items[i].ticket);
        continue;
      }
      kernels::BatchItem item;
      item.tensor = OnHost(items[i].tensor);
      kernels::MeasureBatch(&item, 1, options, nullptr);
      items[i].code = item.code == StatusCode::kOk ? device_->Ask(item.statistics, &items[i].ticket) : item.code;
      device_->AddTime(items[i].account);
    }
  }
  kernels::DeviceItem EnqueueAgreement(const TensorView& a, const TensorView& b, uint8_t account) noexcept override {
    device_->CountLaunch();
    device_->AddTime(account);
    kernels::DeviceItem item{a};
    const auto compare = [x = OnHost(a), y = OnHost(b)] {
      Statistics result;
      (void)kernels::SignAgreement(x, y, &result.mean);
      return result;
    };
    item.captured = device_->Captures(a.stream);
    item.code = item.captured ? device_->Capture(compare, &item.ticket) : device_->Ask(compare(), &item.ticket);
    return item;
  }
  bool IsCapturing(void* stream) noexcept override { return device_->Captures(stream); }
  size_t graph_slots() const noexcept override { return FakeDevice::kGraphSlots; }
  StatusCode EndGraphStep(void* stream, uint64_t* ended) noexcept override {
    return device_->EndGraphStep(stream, ended);
  }
  StatusCode SwitchGraphs(void*, bool on) noexcept override { return device_->SwitchGraphs(on); }
  bool Harvest(uint64_t ticket, Statistics* statistics) noexcept override {
    return device_->Harvest(ticket, statistics);
  }
  void Discard(uint64_t ticket) noexcept override { device_->Discard(ticket); }
  void TakeTimes(kernels::DeviceTimes* ns) noexcept override { device_->TakeTimes(ns); }
  kernels::GraphAnswer HarvestGraph(uint32_t slot, uint64_t step, Statistics* statistics) noexcept override {
    return device_->HarvestGraph(slot, step, statistics);
  }

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

}  // namespace stepwatch::device
