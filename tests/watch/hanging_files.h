// A file system in which opening one file hangs, as it does when the mount that it lies on hangs.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::testing {

class HangingFiles final : public base::FileSystemWrapper {
 public:
  // Never destroyed: a thread that was left behind in a call goes on in it, when the test may be over.
  static HangingFiles& For(const std::string& path) {
    static auto& all = *new std::vector<std::unique_ptr<HangingFiles>>;
    return *all.emplace_back(new HangingFiles(path));
  }

  // Opens the file, then hangs: what is read afterwards is the file of before.
  int Open(const char* path, int flags, mode_t mode) override {
    const int fd = FileSystemWrapper::Open(path, flags, mode);
    if (path != path_) return fd;
    const int error_number = errno;
    std::unique_lock<std::mutex> lock(mutex_);
    if (hangs_) {
      ++held_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !hangs_; });
      --held_;
      changed_.notify_all();
    }
    errno = error_number;
    return fd;
  }

  void Hang() {
    const std::lock_guard<std::mutex> lock(mutex_);
    hangs_ = true;
  }
  // Calls that hang return.
  void LetGo() {
    const std::lock_guard<std::mutex> lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
  }
  int held() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }
  void AwaitHeld(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return held_ == count; });
  }

 private:
  explicit HangingFiles(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  int held_ = 0;
};

}  // namespace stepwatch::testing
