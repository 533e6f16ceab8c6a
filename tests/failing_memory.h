// Makes memory allocations fail on request. Linked into separate executables: failing_memory.cc replaces operator new.
#pragma once

namespace stepwatch::testing {

enum class Failure { kNone, kOnce, kFromThen };

// The failure of allocations of one thread.
struct MemoryFailure {
  Failure kind = Failure::kNone;
  long allocation = 0;  // the number, from 1, of the failing one or of the first of them; counts down
  bool has_failed = false;
};

extern thread_local MemoryFailure memory_failure;

}  // namespace stepwatch::testing
