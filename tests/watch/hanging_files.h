// A file system in which one kind of call on a path hangs, as it does when the mount that it lies on hangs.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::testing {

class HangingFiles final : public base::FileSystemWrapper {
 public:
  enum class Call : uint8_t {
    kOpen,           // of this file
    kAccess,         // of this file: a write-back begins with it
    kMakeDirectory,  // below this directory
    kList,           // of this directory
  };

  // Never destroyed: a thread that was left behind in a call goes on in it, when the test may be over.
  static HangingFiles& For(const std::string& path, Call call = Call::kOpen) {
    static auto& all = *new std::vector<std::unique_ptr<HangingFiles>>;
    return *all.emplace_back(new HangingFiles(path, call));
  }

  // Opens the file, then hangs: what is read afterwards is the file of before.
  int Open(const char* path, int flags, mode_t mode) override {
    const int fd = FileSystemWrapper::Open(path, flags, mode);
    const int error_number = errno;
    if (call_ == Call::kOpen && path == path_) Hold();
    errno = error_number;
    return fd;
  }
  int Access(const char* path, int mode) override {
    if (call_ == Call::kAccess && path == path_) Hold();
    return FileSystemWrapper::Access(path, mode);
  }
  int MakeDirectory(const char* path, mode_t mode) override {
    if (call_ == Call::kMakeDirectory && std::string_view(path).find(path_) == 0) Hold();
    return FileSystemWrapper::MakeDirectory(path, mode);
  }
  int List(const char* path, std::vector<std::string>* names) override {
    if (call_ == Call::kList && path == path_) Hold();
    return FileSystemWrapper::List(path, names);
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
  HangingFiles(std::string path, Call call) : path_(std::move(path)), call_(call) {}

  void Hold() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!hangs_) return;
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
    --held_;
    changed_.notify_all();
  }

  const std::string path_;
  const Call call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  int held_ = 0;
};

}  // namespace stepwatch::testing
