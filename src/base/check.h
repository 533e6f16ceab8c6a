// Checks of internal invariants. A failed check is a bug of Stepwatch: it prints the place and ends the process,
// because continuing would corrupt data that the user trusts. Faults of users, files or the operating system are a
// Status, never a check.
#pragma once

namespace stepwatch::base {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace stepwatch::base

#define STEPWATCH_CHECK(condition) \
  ((condition) ? (void)0 : ::stepwatch::base::CheckFailed(#condition, __FILE__, __LINE__))
