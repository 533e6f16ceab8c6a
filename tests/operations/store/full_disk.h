// A file system for SQLite on which there is no room while `is_full`, and on which a write takes as long as `hangs`;
// everything else is the usual one's.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <map>
#include <mutex>

namespace stepwatch::testing {

inline std::atomic<bool> is_full{false};
inline std::atomic<bool> hangs{false};

class FullDisk {
 public:
  static constexpr const char* kName = "stepwatch-full-disk";

  // Registers it, once for the process.
  static void Register() {
    static sqlite3_vfs vfs = [] {
      sqlite3_vfs made = *sqlite3_vfs_find(nullptr);
      made.zName = kName;
      made.xOpen = Open;
      return made;
    }();
    (void)sqlite3_vfs_register(&vfs, 0);
  }

 private:
  static int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    sqlite3_vfs* usual = sqlite3_vfs_find(nullptr);
    const int code = usual->xOpen(usual, name, file, flags, out);
    if (code != SQLITE_OK || file->pMethods == nullptr) return code;
    const std::lock_guard<std::mutex> lock(mutex_);
    // Journals have other methods than databases.
    Methods& methods = methods_[file->pMethods];
    methods.usual = file->pMethods;
    methods.ours = *file->pMethods;
    methods.ours.xWrite = Write;
    file->pMethods = &methods.ours;
    return SQLITE_OK;
  }
  static int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
    hangs.wait(true);
    if (is_full) return SQLITE_FULL;
    return reinterpret_cast<const Methods*>(file->pMethods)->usual->xWrite(file, bytes, count, offset);
  }

  struct Methods {
    sqlite3_io_methods ours{};  // first, so that its address is that of all
    const sqlite3_io_methods* usual = nullptr;
  };
  static inline std::mutex mutex_;
  static inline std::map<const sqlite3_io_methods*, Methods> methods_;
};

}  // namespace stepwatch::testing
