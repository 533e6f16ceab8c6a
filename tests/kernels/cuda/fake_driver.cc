#include "tests/kernels/cuda/fake_driver.h"

#include <atomic>
#include <cstring>

#include "kernels/cuda/emulation.h"

namespace stepwatch::kernels::cuda::test {

void FakeDevice::Execute(const Work& work) {
  switch (work.kind) {
    case Work::Kind::kLaunch: clock_ns_ += ns_of_launch; return Emulate(work.kernel, work.launch, work.grid, random_());
    case Work::Kind::kUpload: std::memcpy(work.to, work.from, work.bytes); return;
    case Work::Kind::kAdvance:
      *static_cast<uint64_t*>(work.to) += 1;
      std::atomic_ref(*static_cast<uint64_t*>(work.also_to))
          .store(*static_cast<uint64_t*>(work.to), std::memory_order_release);
      return;
    case Work::Kind::kRecord: events_done_.insert(work.event); return;
    case Work::Kind::kWait: return;
    case Work::Kind::kMark: marked_ns_[work.event] = clock_ns_; return;
  }
}

void FakeDevice::LookForHazards(Stream stream, const Launch& launch) {
  for (const auto& [other, queue] : queues_) {
    if (other == stream) continue;
    for (const auto& work : queue)
      if (work->kind == Work::Kind::kLaunch && work->launch.counters == launch.counters && launch.counters != nullptr &&
          launch.step == nullptr)
        hazards += "two streams share counters; ";
  }
}

void FakeDevice::Queue(Stream stream, std::unique_ptr<Work> work) {
  if (capturing.count(stream) != 0) {
    recorded_[stream].push_back(std::move(work));
    return;
  }
  if (work->kind == Work::Kind::kLaunch) LookForHazards(stream, work->launch);
  queues_[stream].push_back(std::move(work));
  if (!run_at_once) return;
  while (RunOneLocked()) {
  }
}

bool FakeDevice::RunOneLocked() {
  std::vector<Stream> ready;
  for (const auto& [stream, queue] : queues_) {
    if (queue.empty()) continue;
    const Work& first = *queue.front();
    if (first.kind != Work::Kind::kWait || events_done_.count(first.event) != 0) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  auto& queue = queues_[ready[random_() % ready.size()]];
  const std::shared_ptr<const Work> work = queue.front();
  queue.pop_front();
  Execute(*work);
  return true;
}

bool FakeDevice::RunOne() {
  const std::lock_guard lock(mutex_);
  return RunOneLocked();
}

void FakeDevice::Replay(Stream recorded, Stream on) {
  const std::lock_guard lock(mutex_);
  for (const auto& work : recorded_[recorded]) {
    queues_[on].push_back(work);
    if (!run_at_once) continue;
    while (RunOneLocked()) {
    }
  }
}

void* FakeDriver::AllocateDevice(size_t bytes) {
  if (device_->allocations_allowed == 0) return nullptr;
  --device_->allocations_allowed;
  device_->memory_.push_back(std::make_unique<std::vector<uint64_t>>((bytes + 7) / 8));
  return device_->memory_.back()->data();
}

Mapped FakeDriver::AllocateMapped(size_t bytes) {
  void* memory = AllocateDevice(bytes);
  return {memory, memory};
}

bool FakeDriver::Run(KernelId kernel, const Launch& launch, uint32_t grid, Stream stream) noexcept {
  const std::lock_guard lock(device_->mutex_);
  if (device_->refuse_launches) return false;
  ++device_->launches;
  auto work = std::make_unique<FakeDevice::Work>();
  work->kind = FakeDevice::Work::Kind::kLaunch;
  work->kernel = kernel;
  work->launch = launch;
  work->grid = grid;
  device_->Queue(stream, std::move(work));
  return true;
}

bool FakeDriver::Upload(void* to, const void* pinned, size_t bytes, Stream stream) noexcept {
  const std::lock_guard lock(device_->mutex_);
  ++device_->uploads;
  auto work = std::make_unique<FakeDevice::Work>();
  work->kind = FakeDevice::Work::Kind::kUpload;
  work->to = to;
  work->from = pinned;
  work->bytes = bytes;
  device_->Queue(stream, std::move(work));
  return true;
}

bool FakeDriver::Advance(uint64_t* step, uint64_t* done, Stream stream) noexcept {
  const std::lock_guard lock(device_->mutex_);
  if (device_->refuse_launches) return false;
  auto work = std::make_unique<FakeDevice::Work>();
  work->kind = FakeDevice::Work::Kind::kAdvance;
  work->to = step;
  work->also_to = done;
  device_->Queue(stream, std::move(work));
  return true;
}

bool FakeDriver::Order(Stream earlier, Stream later) noexcept {
  const std::lock_guard lock(device_->mutex_);
  const uint64_t event = ++device_->last_event_;
  for (const auto& [stream, kind] :
       {std::pair{earlier, FakeDevice::Work::Kind::kRecord}, std::pair{later, FakeDevice::Work::Kind::kWait}}) {
    auto work = std::make_unique<FakeDevice::Work>();
    work->kind = kind;
    work->event = event;
    device_->Queue(stream, std::move(work));
  }
  return true;
}

bool FakeDriver::Mark(size_t mark, Stream stream) noexcept {
  const std::lock_guard lock(device_->mutex_);
  ++device_->marks;
  device_->marked_ns_.erase(mark);
  auto work = std::make_unique<FakeDevice::Work>();
  work->kind = FakeDevice::Work::Kind::kMark;
  work->event = mark;
  device_->Queue(stream, std::move(work));
  return true;
}

bool FakeDriver::Elapsed(size_t begin, size_t end, uint64_t* ns) noexcept {
  const std::lock_guard lock(device_->mutex_);
  const auto from = device_->marked_ns_.find(begin), to = device_->marked_ns_.find(end);
  if (from == device_->marked_ns_.end() || to == device_->marked_ns_.end()) return false;
  *ns = to->second - from->second;
  return true;
}

Capturing FakeDriver::CaptureStateOf(Stream stream) noexcept {
  if (device_->blocked.count(stream) != 0) return Capturing::kBlocked;
  return device_->capturing.count(stream) != 0 ? Capturing::kYes : Capturing::kNo;
}

}  // namespace stepwatch::kernels::cuda::test
