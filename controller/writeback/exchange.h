// Puts our text in the place of a config, holding what was there in hand until it is known to be nobody's edit.
//
// RENAME_EXCHANGE swaps two names in one step, so whatever others do to the config at that moment is either in the file
// we hold afterwards, or came after us and stands. The rules:
//   1. What is in hand and is not the text we replaced is an edit: it goes back.
//   2. Putting back is an exchange as well. If it displaces anything but what we put there last, that is a newer edit,
//   and
//      it goes back in turn, until an exchange brings back what we put.
//   3. A name is removed only when its file holds our text or the text we replaced, and nobody has it open for writing.
//   On
//      any doubt it is kept under a conflict name.
#pragma once

#include <string>

#include "controller/writeback/file_calls.h"
#include "controller/writeback/temporary_file.h"

namespace stepwatch::writeback {

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
};

// `ours` is removed or in place afterwards, except after kFailed. `base`: the text that is to be replaced.
ExchangeResult ExchangeIn(const FileCalls& calls, const std::string& target, const TemporaryFile& ours,
                          const std::string& base);

}  // namespace stepwatch::writeback
