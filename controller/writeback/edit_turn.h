// Takes turns with the other processes of ours that change configs in the same directory: monitors and `stepwatch`.
//
// A lock (flock(2)) on the directory, which leaves no file behind and which other programs do not meet. Whoever waited
// in vain goes on without it: edits of others are found out all the same, only two changes of ours that fall into the
// same microseconds could miss each other then, where there is no exchange of names. Blocking.
#pragma once

#include <string>

#include "src/base/file.h"

namespace stepwatch::writeback {

class EditTurn {
 public:
  EditTurn(base::FileSystem& files, const std::string& directory);
  // A child that was forked meanwhile holds the descriptor as well, so closing it would leave the lock in place.
  ~EditTurn();
  EditTurn(const EditTurn&) = delete;
  EditTurn& operator=(const EditTurn&) = delete;

 private:
  base::FileSystem& files_;
  base::UniqueFd directory_;
  bool is_ours_ = false;
};

}  // namespace stepwatch::writeback
