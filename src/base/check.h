// Checks for what only we can cause. A failed check is a bug of Stepwatch: it says where and ends the process, because
// going on would corrupt what the user trusts. What users, files or the operating system can cause is a Status, never a
// check.
#pragma once

namespace stepwatch::base {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace stepwatch::base

#define STEPWATCH_CHECK(condition) \
  ((condition) ? (void)0 : ::stepwatch::base::CheckFailed(#condition, __FILE__, __LINE__))
