#include "front_ends/shared/reporter.h"

namespace stepwatch::front_end {

void Reporter::Connect(Monitor* monitor) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  monitor_ = monitor;
  ever_connected_ = true;
  for (Event& event : early_)
    if (monitor_ != nullptr) monitor_->Report(std::move(event));
  early_.clear();
}

void Reporter::Report(Event event) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (monitor_ != nullptr) return monitor_->Report(std::move(event));
  if (ever_connected_ || early_.size() == kEarlyMax) return;
  try {
    early_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {  // no memory to keep it
  }
}

void Reporter::Warn(std::string message) noexcept {
  Event event;
  event.kind = EventKind::kWarning;
  event.message = std::move(message);
  Report(std::move(event));
}

void Reporter::Unmeasurable(SiteKind kind, const char* problem) noexcept {
  const uint32_t bit = 1u << static_cast<int>(kind);
  if ((unmeasurable_.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((unmeasurable_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  try {
    Warn(std::string(SiteKindName(kind)) + ": a tensor cannot be measured because " + problem +
         "; it and similar tensors have no rows and are counted as dropped");
  } catch (const std::bad_alloc&) {  // no memory for the message
  }
}

void Reporter::Caught(const char* where, const char* what) noexcept {
  if (caught_.exchange(true, std::memory_order_relaxed)) return;
  try {
    Event event;
    event.kind = EventKind::kDegraded;
    event.message = std::string(where) + " failed, rows are missing, training goes on: " + what;
    Report(std::move(event));
  } catch (const std::bad_alloc&) {  // no memory for the message
  }
}

}  // namespace stepwatch::front_end
