// Facts of the run itself in a manifest.json: plans, segments and sites are skipped, in bounded memory.
#pragma once

#include <istream>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/found_file.h"
#include "src/json/parse_json.h"

namespace stepwatch::offline {

// Reads an open file incrementally. Null: not JSON, or nested too deeply.
inline nlohmann::json ReadManifestHead(int fd, base::FileSystem& files) {
  base::FoundStream bytes(fd, files);
  std::istream stream(&bytes);
  const auto is_wanted = [](int depth, nlohmann::json::parse_event_t event, const nlohmann::json&) {
    using Event = nlohmann::json::parse_event_t;
    return depth == 0 || (event != Event::object_start && event != Event::array_start);
  };
  Result<nlohmann::json> head = bounded::ParseJson<nlohmann::json>(stream, is_wanted);
  return head.ok() ? std::move(head).value() : nlohmann::json();
}

}  // namespace stepwatch::offline
