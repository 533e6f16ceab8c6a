#include "operations/delivery/headers.h"

#include <algorithm>

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kHeadersMax = 16;

bool IsHeaderNameByte(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '-' ||
         byte == '_';
}

bool IsHeaderValueByte(char byte) {
  return byte >= ' ' && byte <= '~';
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> ParseHeaders(std::string_view text_untrusted) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (size_t number = 1; !text_untrusted.empty(); ++number) {
    std::string_view line = text_untrusted.substr(0, text_untrusted.find('\n'));
    text_untrusted.remove_prefix(std::min(text_untrusted.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const size_t colon = std::min(line.size(), line.find(':'));
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(std::min(line.size(), colon + 1));
    value.remove_prefix(std::min(value.size(), value.find_first_not_of(' ')));
    const bool is_header = !name.empty() && colon < line.size() && !value.empty() &&
                           std::all_of(name.begin(), name.end(), IsHeaderNameByte) &&
                           std::all_of(value.begin(), value.end(), IsHeaderValueByte);
    if (!is_header || headers.size() == kHeadersMax)
      return Status(StatusCode::kInvalid, "line " + std::to_string(number) +
                                              " is not a header \"Name: value\" in ASCII, or there are more than " +
                                              std::to_string(kHeadersMax));
    headers.emplace_back(name, value);
  }
  return headers;
}

}  // namespace stepwatch::operations::delivery
