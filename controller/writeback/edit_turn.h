// Serialises config changes by Stepwatch processes (monitors and `stepwatch`) in one directory.
//
// Holds a lock (flock(2)) on the directory, which leaves no file behind and does not affect other programs. After a
// timeout the change continues without the lock: edits of others are still detected; only two Stepwatch changes within
// the same microseconds could then overwrite each other, where names cannot be exchanged. Blocking.
#pragma once

#include <string>

#include "src/base/file.h"

namespace stepwatch::writeback {

class EditTurn {
 public:
  EditTurn(base::FileSystem& files, const std::string& directory);
  // A forked child holds the descriptor as well, so closing it alone would leave the lock in place.
  ~EditTurn();
  EditTurn(const EditTurn&) = delete;
  EditTurn& operator=(const EditTurn&) = delete;

 private:
  base::FileSystem& files_;
  base::UniqueFd directory_;
  bool is_ours_ = false;
};

}  // namespace stepwatch::writeback
