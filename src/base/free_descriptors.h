// How many more files this process can open.
#pragma once

#include <cstddef>

namespace stepwatch::base {

// The numbers below the limit of descriptors (RLIMIT_NOFILE, the soft one) that are not in use. Stops counting at
// `enough`. Takes no descriptor itself, so that it can be asked when there is none.
size_t FreeDescriptors(size_t enough);

// RLIMIT_NOFILE as it is now: a process may change it.
size_t DescriptorLimit();

}  // namespace stepwatch::base
