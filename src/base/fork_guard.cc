#include "src/base/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "src/base/check.h"

namespace stepwatch::base {
namespace {

size_t PageBytes() {
  return static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

ForkGuard::ForkGuard() {
  void* page = ::mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPWATCH_CHECK(page != MAP_FAILED);
  // Linux 4.14 and later; without it a child takes itself for the owner, which only shows when the child exits.
  (void)::madvise(page, PageBytes(), MADV_WIPEONFORK);
  page_ = new (page) Page();
  page_->owner.store(true, std::memory_order_relaxed);
  page_->flag.store(false, std::memory_order_relaxed);
  page_->pointer.store(nullptr, std::memory_order_relaxed);
}

ForkGuard::~ForkGuard() {
  ::munmap(page_, PageBytes());
}

}  // namespace stepwatch::base
