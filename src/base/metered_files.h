// Counts the bytes that a run has on disk, and rejects those beyond a limit.
//
// Counted are bytes that were written through a MeteredFiles of the meter and still exist: truncating, removing or
// replacing a file through one returns its bytes. Changes made by other processes are not seen.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "src/base/file_system.h"
#include "src/base/mutex.h"

namespace stepwatch::base {

// Thread-safe.
class DiskMeter {
 public:
  // How much of the limit is used. Only rises: a collection that ended because of it does not begin again.
  enum class Level : uint8_t { kFree, kNear, kUsedUp };

  explicit DiskMeter(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Must be called before the first write. The writing thread calls `on_level` when the level rises; it must neither
  // block nor throw. If it returns false, because the report failed, it is called again with the next write.
  void OnLevel(std::function<bool()> on_level) { on_level_ = std::move(on_level); }

  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  Level level() const { return level_.load(std::memory_order_acquire); }
  // True if a write was rejected because of the limit.
  bool has_refused() const { return has_refused_.load(std::memory_order_relaxed); }
  // Records the bytes of one step's rows. The limit counts as used up when a few such steps plus the unlimited writes
  // would not fit any more, so that the steps in flight still do.
  void CountStep(uint64_t bytes);

 private:
  friend class MeteredFiles;
  using Inode = std::pair<dev_t, ino_t>;

  // Returns false if these bytes exceed the limit.
  bool Reserve(uint64_t bytes, bool is_limited);
  void Wrote(const Inode& inode, uint64_t reserved, uint64_t written);
  void GiveBack(const Inode& inode, uint64_t bytes);
  void Judge();

  const uint64_t bytes_max_;
  std::function<bool()> on_level_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> largest_step_{0};
  std::atomic<uint64_t> largest_note_{0};  // of the unlimited writes
  std::atomic<bool> has_refused_{false};
  std::atomic<Level> level_{Level::kFree};
  std::atomic<Level> reported_level_{Level::kFree};
  Mutex mutex_;
  std::map<Inode, uint64_t> bytes_of_ STEPWATCH_GUARDED_BY(mutex_);
};

class MeteredFiles final : public FileSystemWrapper {
 public:
  // With `is_limited` a write beyond the meter's limit fails with EDQUOT; otherwise it is only counted. The meter and
  // the target must outlive this object.
  MeteredFiles(DiskMeter* meter, bool is_limited, FileSystem& target)
      : FileSystemWrapper(target), meter_(meter), is_limited_(is_limited) {}

  ssize_t Write(int fd, const void* bytes, size_t count) override;
  int Truncate(int fd, off_t size) override;
  int Rename(const char* from, const char* to) override;
  int Unlink(const char* path) override;

 private:
  DiskMeter* const meter_;
  const bool is_limited_;
};

}  // namespace stepwatch::base
