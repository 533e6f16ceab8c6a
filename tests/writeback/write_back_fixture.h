// Shared by the tests of the write-back: the text that started a window, and the text that it must become.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "controller/writeback/config_edit.h"
#include "controller/writeback/displaced_file.h"
#include "src/base/sha256.h"
#include "tests/catch.h"
#include "tests/hooked_files.h"
#include "tests/temporary_directory.h"

namespace stepwatch::testing {

inline const std::string kBase =
    "{\r\n  // watched by night\r\n  \"dynamic_on\" : true, /* the token */\r\n  \"start_step\":  3\r\n}\r\n";
inline const std::string kOurs =
    "{\r\n  // watched by night\r\n  \"dynamic_on\" : false, /* the token */\r\n  \"start_step\":  3\r\n}\r\n";

inline const std::string kEdit = "{\"dynamic_on\": true, \"start_step\": 12345}\n";  // somebody's, meanwhile
inline const std::vector<std::string> kConfigAlone{"config.json"};
inline constexpr char kConflict[] = ".config.json.stepwatch-conflict-";

inline writeback::WriteBackResult WriteBack(const std::string& path,
                                            base::FileSystem& files = base::FileSystem::Real()) {
  return writeback::SetDynamicOn(path, base::Sha256Hex(kBase), false, files);
}

// A change of kBase to `ours`.
struct Change {
  const char* name;
  std::string ours;
  std::function<writeback::WriteBackResult(const std::string& path, base::FileSystem& files)> make;
};

inline Change WriteBackChange() {
  return {"write-back", kOurs, WriteBack};
}

// `if_match_sha256`: as ReplaceConfig takes it.
inline Change Replacement(const char* name, const std::string& ours,
                          const std::string& if_match_sha256 = base::Sha256Hex(kBase)) {
  return {name, ours, [ours, if_match_sha256](const std::string& path, base::FileSystem& files) {
            return writeback::ReplaceConfig(path, if_match_sha256, ours, files);
          }};
}

inline std::vector<Change> Changes() {
  return {WriteBackChange(), Replacement("shorter text", kBase.substr(0, 20) + "}\n"),
          Replacement("longer text", kBase + "// " + std::string(9000, '.') + "\n")};
}

// The displaced file of a write-back.
inline writeback::DisplacedFiles Displaced(writeback::WriteBackResult& result) {
  writeback::DisplacedFiles files;
  files.AddOurs(result.sha256);
  if (result.displaced) files.Add(std::move(*result.displaced));
  return files;
}

using Findings = std::vector<writeback::DisplacedFile::Finding>;

// Looks until the grace is over, on a clock of its own that begins at `now`.
inline Findings LookToTheEnd(writeback::DisplacedFiles& files, std::chrono::steady_clock::time_point now) {
  Findings all;
  for (; files.look_at(); now += writeback::kDisplacedGrace / 2) {
    for (auto& finding : files.Look(now)) all.push_back(std::move(finding));
  }
  return all;
}
inline Findings LookToTheEnd(writeback::WriteBackResult& result) {
  writeback::DisplacedFiles files = Displaced(result);
  return LookToTheEnd(files, std::chrono::steady_clock::now());
}

// A write-back and the grace after it.
inline writeback::WriteBackResult WriteBackToTheEnd(const std::string& path,
                                                    base::FileSystem& files = base::FileSystem::Real()) {
  writeback::WriteBackResult result = WriteBack(path, files);
  LookToTheEnd(result);
  return result;
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

// Makes a file beside the config no file of ours, in one way for each run of a test case.
inline void MakeForeign(const std::string& left, const TemporaryDirectory& directory) {
  SECTION("a second name") {
    std::filesystem::create_hard_link(left, directory / "mine");
  }
  SECTION("a link") {
    std::filesystem::rename(left, directory / "mine");
    std::filesystem::create_symlink("mine", left);
  }
  SECTION("a FIFO") {
    std::filesystem::remove(left);
    REQUIRE(::mkfifo(left.c_str(), 0600) == 0);
  }
  SECTION("another owner") {
    if (::geteuid() == 0)
      REQUIRE(::chown(left.c_str(), 12345, 12345) == 0);
    else
      std::filesystem::remove(left);  // only root can give files away
  }
}

// A directory with a config.
struct ConfigPlace {
  explicit ConfigPlace(const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : directory(parent) {
    WriteInPlace(path, kBase);
  }
  std::vector<std::string> Conflicts() const { return ContentsBeside(directory.path(), kConflict); }

  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
};

}  // namespace stepwatch::testing
