#include "src/base/free_descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <vector>

#include "src/base/file.h"
#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("descriptors are free below the limit, wherever those in use are") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{200, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  const size_t limit = DescriptorLimit();
  const size_t free = FreeDescriptors(1000);
  const size_t asked_for = FreeDescriptors(3);
  const UniqueFd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd highest(::fcntl(lowest.get(), F_DUPFD_CLOEXEC, 199));
  const size_t with_two = FreeDescriptors(1000);
  std::vector<UniqueFd> all;
  for (int fd = 0; (fd = ::dup(lowest.get())) >= 0;) all.emplace_back(fd);
  const size_t with_all = FreeDescriptors(1000), taken = all.size();
  all.clear();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(limit == 200);
  CHECK(free < 200);
  CHECK(asked_for == 3);
  CHECK(with_two == free - 2);
  CHECK(with_all == 0);
  CHECK(taken == with_two);
}

}  // namespace
}  // namespace stepwatch::base
