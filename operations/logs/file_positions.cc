#include "operations/logs/file_positions.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/sha256.h"
#include "src/json/json.h"

namespace stepwatch::operations {
namespace {

constexpr int kVersion = 1;
constexpr size_t kPathBytesMax = 4096;

// The digest of `size` bytes at `offset`; empty if the text is shorter.
std::string DigestAt(FileText* text, int64_t offset, int64_t size) {
  const Result<std::string> bytes = text->Read(offset, static_cast<size_t>(size));
  if (!bytes.ok() || std::cmp_not_equal(bytes.value().size(), size)) return "";
  return base::Sha256Hex(bytes.value()).substr(0, 32);
}

int64_t TailSize(const FilePosition& position) {
  return std::min<int64_t>(position.offset, kTailBytes);
}

template <class T>
T Member(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return T();
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : T();
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() && found->get<bool>();
  } else {
    return found->is_number() ? found->get<T>() : T();
  }
}

}  // namespace

std::string PositionsText(const FilePositions& positions) {
  Json list = Json::array();
  for (const FilePosition& each : positions.files) {
    Json copies = Json::array();
    for (const FileKey& key : each.copies) copies.push_back({key.device, key.inode});
    list.push_back({{"identity", each.identity},
                    {"path", each.path},
                    {"offset", each.offset},
                    {"inside", each.is_inside},
                    {"head_size", each.head_size},
                    {"head", each.head},
                    {"tail", each.tail},
                    {"copies", std::move(copies)},
                    {"over", each.is_over},
                    {"seen", each.seen_t}});
  }
  return json::Dump(
             {{"version", kVersion}, {"t", positions.t}, {"since", positions.since_t}, {"files", std::move(list)}}) +
         "\n";
}

Result<FilePositions> ParsePositions(std::string_view text_untrusted) {
  const Result<Json> parsed = json::Parse(text_untrusted);
  if (!parsed.ok()) return parsed.status();
  const Json& json = parsed.value();
  if (!json.is_object() || Member<int64_t>(json, "version") != kVersion || !json.contains("files") ||
      !json["files"].is_array())
    return Status(StatusCode::kInvalid, "these are no positions of this version");
  FilePositions positions;
  positions.t = Member<double>(json, "t");
  positions.since_t = Member<double>(json, "since");
  for (const Json& each : json["files"]) {
    if (!each.is_object() || positions.files.size() == kPositionsMax) continue;
    FilePosition position;
    position.identity = Member<std::string>(each, "identity").substr(0, 64);
    position.path = Member<std::string>(each, "path").substr(0, kPathBytesMax);
    position.offset = std::max<int64_t>(0, Member<int64_t>(each, "offset"));
    position.is_inside = Member<bool>(each, "inside");
    position.head_size = std::clamp<int64_t>(Member<int64_t>(each, "head_size"), 0, kHeadBytes);
    position.head = Member<std::string>(each, "head");
    position.tail = Member<std::string>(each, "tail");
    position.is_over = Member<bool>(each, "over");
    position.seen_t = Member<double>(each, "seen");
    const auto copies = each.find("copies");
    if (copies != each.end() && copies->is_array())
      for (const Json& key : *copies)
        if (key.is_array() && key.size() == 2 && key[0].is_number() && key[1].is_number() &&
            position.copies.size() < kFileCopiesMax)
          position.copies.push_back({key[0].get<uint64_t>(), key[1].get<uint64_t>()});
    if (!position.identity.empty() && !position.path.empty()) positions.files.push_back(std::move(position));
  }
  return positions;
}

Status SetDigests(FileText* text, FilePosition* position) {
  position->head_size = std::min<int64_t>(position->offset, kHeadBytes);
  std::string head = DigestAt(text, 0, position->head_size);
  std::string tail = DigestAt(text, position->offset - TailSize(*position), TailSize(*position));
  if (position->offset > 0 && (head.empty() || tail.empty()))
    return Status(StatusCode::kNotFound, "the text is shorter than its position");
  position->head = std::move(head);
  position->tail = std::move(tail);
  return Status();
}

bool HasTextOf(FileText* text, const FilePosition& position) {
  if (position.head_size > 0 && DigestAt(text, 0, position.head_size) != position.head) return false;
  return position.offset == 0 ||
         DigestAt(text, position.offset - TailSize(position), TailSize(position)) == position.tail;
}

}  // namespace stepwatch::operations
