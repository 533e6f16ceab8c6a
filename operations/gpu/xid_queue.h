// Xids as NVML's events, on a thread of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operations/gpu/gpu_reader.h"

namespace stepwatch::operations {

// Any call may block as NVML does. One thread at a time.
class XidQueue {
 public:
  explicit XidQueue(std::shared_ptr<const GpuSession> session);
  ~XidQueue();
  XidQueue(const XidQueue&) = delete;
  XidQueue& operator=(const XidQueue&) = delete;

  struct Events {
    std::vector<std::pair<std::string, int64_t>> xids;  // UUID and code
    bool has_failed = false;                            // a later call may succeed
  };
  // Waits for the first event for as long, and returns all that are there.
  Events Wait(unsigned milliseconds);

  const GpuSession* session() const { return session_.get(); }

 private:
  const std::shared_ptr<const GpuSession> session_;
  nvml::EventSet set_ = nullptr;
};

}  // namespace stepwatch::operations
