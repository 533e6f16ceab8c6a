// A low limit of open files during a test.
#pragma once

#include <sys/resource.h>

#include "tests/catch.h"

namespace stepwatch::testing {

// Sets the soft limit, and restores it at the end.
class LowDescriptorLimit {
 public:
  explicit LowDescriptorLimit(rlim_t limit) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit low{limit, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  ~LowDescriptorLimit() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
  LowDescriptorLimit(const LowDescriptorLimit&) = delete;
  LowDescriptorLimit& operator=(const LowDescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace stepwatch::testing
