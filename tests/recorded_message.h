// Messages between ranks, in files that a build of their version has written: <folder>/<version>/<name>.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::testing {

inline std::string RecordedMessage(const std::string& folder, const std::string& version, const std::string& name) {
  const std::string path = folder + "/" + version + "/" + name;
  INFO("of a new version the messages are recorded in " << path);
  REQUIRE(std::filesystem::exists(path));
  return Contents(path);
}

// Checks both ways: `read` accepts the recorded bytes as this message, and the message is written as these bytes.
template <class Message, class Read>
void CheckRecorded(const std::string& folder, const std::string& version, const std::string& name,
                   const Message& message, Read read) {
  INFO(version << "/" << name);
  const std::string recorded = RecordedMessage(folder, version, name);
  CHECK(Encode(message) == recorded);
  const std::optional<Message> found = read(recorded);
  REQUIRE(found);
  CHECK(Encode(*found) == recorded);
}

}  // namespace stepwatch::testing
