// Writes our text over the old one in the same file: for files whose owner, hard links or mount must stay.
//
// One call writes the text from the first byte that differs. If the old text is longer, spaces cover its rest, which is
// then cut off: a read in between, or after a kill, parses like our text. A write lease keeps other programs out
// meanwhile; where leases are not supported, a save within the same microseconds can be damaged, and no remedy is
// known.
#pragma once

#include <string>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

struct InPlaceResult {
  enum class End : uint8_t {
    kReplaced,
    kEdited,   // the file holds, or the path leads to, other bytes than `base`; our text is not in it
    kMixed,    // like kEdited, but a writer that had the file open all the time wrote during our write
    kFailed,   // `error`; the file holds `base`
    kDamaged,  // `error`, and the previous bytes could not be restored
  };

  End end = End::kFailed;
  int error = 0;
};

InPlaceResult WriteInPlace(base::FileSystem& files, const std::string& target, const std::string& base,
                           const std::string& ours);

}  // namespace stepwatch::writeback
