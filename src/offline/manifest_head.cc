#include "src/offline/manifest_head.h"

#include <istream>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/found_file.h"
#include "src/json/parse_json.h"

namespace stepwatch::offline {

Json ReadManifestHead(int fd, base::FileSystem& files) {
  base::FoundStream bytes(fd, files);
  std::istream stream(&bytes);
  const auto is_wanted = [](int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    return depth == 0 || (event != Event::object_start && event != Event::array_start);
  };
  Result<Json> head = bounded::ParseJson<Json>(stream, is_wanted);
  return head.ok() ? std::move(head).value() : Json();
}

}  // namespace stepwatch::offline
