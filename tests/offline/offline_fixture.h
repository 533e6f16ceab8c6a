// Runs on disk, for the tests of the offline tools.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/has.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::offline::test {

using sinks::test::Contents;
using sinks::test::TemporaryDirectory;
using testing::Has;

// Writes `text` to directory/name, directories included; returns the path.
inline std::string Put(const std::string& directory, const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(directory) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  return path.string();
}

// Every file below `directory`, by its path from there.
inline std::map<std::string, std::string> ReadTree(const std::string& directory) {
  std::map<std::string, std::string> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), directory).string()] = Contents(entry.path().string());
  return files;
}

constexpr const char* kRank0 = "Dec03_21-34-40-rank0-aaaaaaaa";

}  // namespace stepwatch::offline::test
