#include "src/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace stepwatch::base {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "stepwatch: internal check failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace stepwatch::base
