// Puts our text in the place of a config, holding what was there in hand until it is known to be nobody's edit.
//
// RENAME_EXCHANGE swaps two names in one step, so whatever others do to the config at that moment is either in the file
// we hold afterwards, or came after us and stands. The rules:
//   1. What is in hand and is not the text we replaced is an edit: it goes back.
//   2. Putting back is an exchange as well. If it displaces anything but what we put there last, that is a newer edit,
//   and it goes back in turn, until an exchange brings back what we put.
//   3. A file that holds our text or the text we replaced may still be opened by somebody who looked the name up before
//   the exchange. It is handed back, to be kept and looked at for a while. What holds anything else and cannot go back
//   is kept under a conflict name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/writeback/file_calls.h"
#include "controller/writeback/temporary_file.h"

namespace stepwatch::writeback {

// What an exchange took out of the config's place.
struct KeptFile {
  std::string path;
  base::UniqueFd fd;  // open for reading
  std::string bytes;  // that it held: ours, or those we replaced
};

struct ExchangeResult {
  enum class End : uint8_t {
    kReplaced,  // our text is in the file
    kEdited,    // somebody's newer text is in the file
    kHeld,      // the old text is back: somebody keeps its file open for writing, so it must stay the same file
    kFailed,    // the first exchange failed with `error`; nothing changed, the temporary file is still there
  };

  End end = End::kFailed;
  int error = 0;
  std::string kept_as;  // a conflict file, if one had to be kept
  std::optional<KeptFile> displaced;
};

// `ours.path` is a displaced name (NameDisplaced). `base`: the text that is to be replaced.
ExchangeResult ExchangeIn(base::FileSystem& files, const std::string& target, const TemporaryFile& ours,
                          const std::string& base);

// Puts the file at `hand` in the place of `in_file`, without waiting for anybody who writes to either. If `in_file` is
// not ours, it is an older edit and becomes a conflict file. Answers kEdited.
ExchangeResult PutBackIn(base::FileSystem& files, const std::string& target, const std::string& hand,
                         const Version& in_file, bool in_file_is_ours);

}  // namespace stepwatch::writeback
