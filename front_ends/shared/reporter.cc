#include "front_ends/shared/reporter.h"

#include <cstdio>

namespace stepwatch::front_end {

void Reporter::Tell(const Event& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (on_event_) {
    on_event_(event);
  } else {
    std::fprintf(stderr, "stepwatch: %s\n", EventText(event).c_str());
  }
}

void Reporter::Warn(std::string message) noexcept {
  try {
    Event event;
    event.kind = EventKind::kWarning;
    event.message = std::move(message);
    Tell(event);
  } catch (...) {  // the user's function threw, or memory is out: there is nobody left to tell
  }
}

void Reporter::Unmeasurable(SiteKind kind, const char* problem) noexcept {
  const uint32_t bit = 1u << static_cast<int>(kind);
  if ((unmeasurable_.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((unmeasurable_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  try {
    Warn(std::string(SiteKindName(kind)) + ": a tensor cannot be measured because " + problem +
         "; it and others like it give no rows and are counted as dropped");
  } catch (...) {
  }
}

void Reporter::Caught(const char* where, const char* what) noexcept {
  if (caught_.exchange(true, std::memory_order_relaxed)) return;
  try {
    Event event;
    event.kind = EventKind::kDegraded;
    event.message = std::string(where) + " failed, rows are missing, training goes on: " + what;
    Tell(event);
  } catch (...) {
  }
}

}  // namespace stepwatch::front_end
