// Writes our text over the old one in the same file: for files whose owner, hard links or mount must stay.
//
// The text is written from its first byte that differs on, with one call. If the old one is longer, spaces cover the
// rest of it, which is then cut off: what is read in between, or after a kill, means what ours does. A write lease
// keeps others out while it lasts; where there are no leases, a save within the same microseconds can be damaged, and
// no way is known to avoid it.
#pragma once

#include <string>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

struct InPlaceResult {
  enum class End : uint8_t {
    kReplaced,
    kEdited,   // the file holds, or the path leads to, something else than `base`; nothing of ours is in it
    kMixed,    // the same, but a writer that had the file open all the time wrote while we did
    kFailed,   // `error`; the file holds `base`
    kDamaged,  // `error`, and the bytes before could not be brought back either
  };

  End end = End::kFailed;
  int error = 0;
};

InPlaceResult WriteInPlace(base::FileSystem& files, const std::string& target, const std::string& base,
                           const std::string& ours);

}  // namespace stepwatch::writeback
