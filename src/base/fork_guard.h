// Distinguishes a process from its forked children, for the price of one load.
//
// The flag lies in a page of its own that the kernel zeroes in a child (MADV_WIPEONFORK), so a child sees false without
// a handler, a system call or a lock.
#pragma once

#include <atomic>

namespace stepwatch::base {

class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool InOwner() const noexcept { return page_->owner.load(std::memory_order_relaxed); }
  // A flag that is false in every child.
  std::atomic<bool>& flag() noexcept { return page_->flag; }
  // A pointer that is null in every child, and null until it is set.
  std::atomic<void*>& pointer() noexcept { return page_->pointer; }

 private:
  struct Page {
    std::atomic<bool> owner;
    std::atomic<bool> flag;
    std::atomic<void*> pointer;
  };
  Page* page_ = nullptr;
};

}  // namespace stepwatch::base
