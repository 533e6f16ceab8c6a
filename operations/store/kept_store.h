// The store of stepwatchd, which survives damage to its files.
//
// Detects damage before it opens the files, and changes, replacement or removal by other programs while they are open.
// Unusable files are set aside, as "stepwatchd.db.damaged-1", -2 and so on, and a new store begins with all readable
// data. It blocks, and is for one thread (StoreQueue).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operations/store/store.h"
#include "src/base/file.h"

namespace stepwatch::operations {

// Events since the last report.
struct StoreReport {
  std::vector<std::string> notes;    // each is logged
  std::optional<Restored> restored;  // it was opened for the first time
  bool is_renewed = false;           // it may lack earlier data: all data still known must be written again
  bool is_taken = false;             // another stepwatchd uses the directory
  int64_t set_aside = 0;             // number of times that files were set aside
  int64_t changes_lost = 0;          // of incidents, that were stored before
  int64_t bytes = 0;                 // of the store
};

class KeptStore {
 public:
  // Opens no file yet.
  explicit KeptStore(StoreOptions options);
  ~KeptStore();

  // Opens the store if necessary, and writes all of the batch or none of it. An empty batch only checks the store. Ok:
  // data written now and then was read back from the files.
  Status Write(const Batch& batch);
  // As Store's function.
  Result<bool> Prune(const StoreLimits& limits, double t, std::chrono::milliseconds at_most);
  // Null: it is not open.
  Store* store() { return store_.get(); }
  StoreReport TakeReport();

 private:
  // Distinguishes a file from one that another program has replaced or written to.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    int64_t changed = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 3>;  // of the database, its log, and the log's index

  Status WriteOnce(const Batch& batch);
  Status EnsureOpen();
  Status HoldDirectory();
  Status Open();
  Status OpenFile();
  Status Restore();
  Status Prove();
  // The fault of the files; empty if they may be those of a store, or do not exist.
  std::string FaultOfFiles();
  // Begins again with all readable data of the store, and sets its files aside.
  Status Renew(const std::string& why);
  Result<std::string> SetAside(const std::string& path);
  void Close(bool abandons_files);
  Stamps Look() const;
  // Attributes changes of size and time, not of the file itself, to this process.
  void Restamp();
  void NoteLastChange(int64_t number);
  void NoteLack(bool lacks_some);

  const StoreOptions options_;
  const std::string lock_path_;
  base::FileSystem& files_ = base::FileSystem::Real();
  base::UniqueFd lock_;
  std::unique_ptr<Store> store_;
  Stamps stamps_;
  StoreReport report_;
  bool is_restored_ = false;
  bool was_there_ = false;           // a stepwatchd has stored its state here before
  int64_t last_change_ = 0;          // the largest number of a change ever stored here, from the lock file
  std::optional<bool> lacked_some_;  // the previous process; from the lock file
  bool lacks_some_ = false;          // a write failed, and no later one has succeeded; likewise
  std::chrono::steady_clock::time_point proves_at_{};
  std::chrono::steady_clock::time_point renews_at_{};
};

}  // namespace stepwatch::operations
