#include "src/base/free_descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace stepwatch::base {
namespace {

// Only a process that uses nearly all of them needs a longer scan.
constexpr size_t kNumbersLookedAtMax = size_t{1} << 16;

}  // namespace

size_t DescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
}

// The kernel assigns the lowest free number, so the highest ones are usually free.
size_t FreeDescriptors(size_t enough) {
  const size_t limit = DescriptorLimit();
  const size_t last = limit > kNumbersLookedAtMax ? limit - kNumbersLookedAtMax : 0;
  size_t count = 0;
  for (size_t number = limit; number > last && count < enough; --number)
    if (::fcntl(static_cast<int>(number - 1), F_GETFD) < 0 && errno == EBADF) ++count;
  return count;
}

}  // namespace stepwatch::base
