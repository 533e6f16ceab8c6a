// What the tests of the write-back share: the text that started a window, and the text it must become.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "controller/writeback/file_calls.h"
#include "controller/writeback/write_back.h"
#include "src/base/sha256.h"
#include "tests/watch/temporary_directory.h"

namespace stepwatch::testing {

inline const std::string kBase =
    "{\r\n  // watched by night\r\n  \"dynamic_on\" : true, /* the token */\r\n  \"start_step\":  3\r\n}\r\n";
inline const std::string kOurs =
    "{\r\n  // watched by night\r\n  \"dynamic_on\" : false, /* the token */\r\n  \"start_step\":  3\r\n}\r\n";

inline writeback::WriteBackResult WriteBack(const std::string& path, const writeback::FileCalls& calls = {}) {
  return writeback::WriteBackDynamicOff(
      path, base::Sha256Hex(kBase), [](const std::string&) {}, calls);
}

inline std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}
inline std::vector<std::string> NamesIn(const TemporaryDirectory& directory) {
  return NamesIn(directory.path());
}

// Contents of the files beside the config that begin with this.
inline std::vector<std::string> ContentsBeside(const std::string& directory, const std::string& prefix) {
  std::vector<std::string> contents;
  for (const std::string& name : NamesIn(directory)) {
    if (name.compare(0, prefix.size(), prefix) == 0) contents.push_back(Contents(directory + "/" + name));
  }
  return contents;
}

}  // namespace stepwatch::testing
