// Exchanges our text with the config, and keeps the old file in hand until it is known not to be an edit.
//
// RENAME_EXCHANGE swaps two names in one step, so a save at that moment is either in the file we hold afterwards, or
// came after us and stays. The rules:
//   1. A file in hand whose text is not the one we replaced is an edit: it goes back.
//   2. Putting back is an exchange as well. If it displaces anything but the file we put there last, that is a newer
//   edit and goes back in turn, until an exchange returns the file we put.
//   3. A file that holds our text or the text we replaced may still be opened by an editor that looked the name up
//   before the exchange. It is returned to the caller, to be watched for a while. Any other file that cannot go back is
//   kept under a conflict name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/writeback/file_calls.h"
#include "controller/writeback/temporary_file.h"

namespace stepwatch::writeback {

// The file that an exchange took out of the config's place.
struct KeptFile {
  std::string path;
  base::UniqueFd fd;  // open for reading
  std::string bytes;  // its content: our text, or the one we replaced
};

struct ExchangeResult {
  enum class End : uint8_t {
    kReplaced,  // our text is in the file
    kEdited,    // a newer edit is in the file
    kHeld,      // the old text is back: another process keeps its file open for writing, so it must stay the same file
    kFailed,    // the first exchange failed with `error`; nothing changed, the temporary file is still there
  };

  End end = End::kFailed;
  int error = 0;
  std::string kept_as;  // a conflict file, if one had to be made
  std::optional<KeptFile> displaced;
};

// `ours.path` is a displaced name (NameDisplaced). `base`: the text to replace.
ExchangeResult ExchangeIn(base::FileSystem& files, const std::string& target, const TemporaryFile& ours,
                          const std::string& base);

// Puts the file at `hand` in the place of `in_file`, without waiting for writers of either. If `in_file` is not ours,
// it is an older edit and becomes a conflict file. Returns kEdited.
ExchangeResult PutBackIn(base::FileSystem& files, const std::string& target, const std::string& hand,
                         const Version& in_file, bool in_file_is_ours);

}  // namespace stepwatch::writeback
