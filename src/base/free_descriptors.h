// Counts the files that this process can still open.
#pragma once

#include <cstddef>

namespace stepwatch::base {

// The numbers below the limit of descriptors (the soft RLIMIT_NOFILE) that are not in use. Stops counting at `enough`.
// Opens no descriptor, so that it works when none are left.
size_t FreeDescriptors(size_t enough);

// The current RLIMIT_NOFILE: a process may change it.
size_t DescriptorLimit();

}  // namespace stepwatch::base
