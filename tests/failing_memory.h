// Memory that runs out when a test says so. Linked into executables of their own: failing_memory.cc replaces operator
// new.
#pragma once

namespace stepwatch::testing {

enum class Failure { kNone, kOnce, kFromThen };

// What the allocations of one thread find.
struct MemoryFailure {
  Failure kind = Failure::kNone;
  long allocation = 0;  // the one that fails, or from which on all do, from 1; counts down
  bool has_failed = false;
};

extern thread_local MemoryFailure memory_failure;

}  // namespace stepwatch::testing
