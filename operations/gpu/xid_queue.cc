#include "operations/gpu/xid_queue.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kEventsMax = 1000;

}  // namespace

XidQueue::XidQueue(std::shared_ptr<const GpuSession> session) : session_(std::move(session)) {
  const nvml::Functions& f = session_->nvml->functions();
  if (Nvml::Call(f.event_set_create, &set_) != nvml::kSuccess) set_ = nullptr;
  if (set_ == nullptr) return;
  for (const GpuSession::Device& device : session_->devices)
    if (device.handle != nullptr) (void)Nvml::Call(f.register_events, device.handle, nvml::kXidEvent, set_);
}

XidQueue::~XidQueue() {
  if (set_ != nullptr) (void)Nvml::Call(session_->nvml->functions().event_set_free, set_);
}

XidQueue::Events XidQueue::Wait(unsigned milliseconds) {
  Events events;
  if (set_ == nullptr) return {{}, true};
  while (events.xids.size() < kEventsMax) {
    nvml::EventData data{};
    const nvml::Return status =
        Nvml::Call(session_->nvml->functions().event_wait, set_, &data, events.xids.empty() ? milliseconds : 0);
    events.has_failed = status != nvml::kSuccess && status != nvml::kTimeout;
    if (status != nvml::kSuccess) break;
    for (const GpuSession::Device& device : session_->devices)
      if (data.type == nvml::kXidEvent && device.handle == data.device && device.handle != nullptr)
        events.xids.emplace_back(device.uuid, static_cast<int64_t>(data.data));
  }
  return events;
}

}  // namespace stepwatch::operations
