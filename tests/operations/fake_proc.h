// A file system whose /proc and /sys are a directory of the test.
#pragma once

#include <filesystem>
#include <string>

#include "src/base/file_system.h"
#include "tests/temporary_directory.h"

namespace stepwatch::testing {

class FakeProc : public base::FileSystemWrapper {
 public:
  // Sets the content of the file at this absolute path.
  void Set(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(directory_.path() + path).parent_path());
    WriteInPlace(directory_.path() + path, text);
  }
  void Remove(const std::string& path) { std::filesystem::remove_all(directory_.path() + path); }

  int Open(const char* path, int flags, mode_t mode) override {
    return FileSystemWrapper::Open(At(path).c_str(), flags, mode);
  }
  int Stat(const char* path, struct stat* about) override { return FileSystemWrapper::Stat(At(path).c_str(), about); }
  int List(const char* path, std::vector<std::string>* names) override {
    return FileSystemWrapper::List(At(path).c_str(), names);
  }
  ssize_t ReadLink(const char* path, char* text, size_t size) override {
    return FileSystemWrapper::ReadLink(At(path).c_str(), text, size);
  }

 private:
  std::string At(const std::string& path) const {
    return path.starts_with("/proc/") || path.starts_with("/sys/") ? directory_.path() + path : path;
  }

  TemporaryDirectory directory_;
};

// A line of /proc/PID/stat, of a process with an awkward name.
inline std::string StatLine(int pid, char state, uint64_t started) {
  std::string line = std::to_string(pid) + " (a) b (c) " + state;
  for (int field = 4; field < 22; ++field) line += " 1";
  return line + " " + std::to_string(started) + " 0 0\n";
}

}  // namespace stepwatch::testing
