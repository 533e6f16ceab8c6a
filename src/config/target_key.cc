#include "src/config/target_key.h"

#include <charconv>
#include <limits>

namespace stepwatch::config {

TargetKey SplitTargetKey(std::string_view key) {
  const size_t colon = key.find(':');
  const size_t digits = key.find_first_not_of("0123456789");
  if (colon == std::string_view::npos || colon == 0 || digits != colon) return {-1, std::string(key)};
  TargetKey split;
  const auto end = std::from_chars(key.data(), key.data() + colon, split.chunk);
  if (end.ec != std::errc()) split.chunk = std::numeric_limits<int>::max();  // matches no model
  split.text = key.substr(colon + 1);
  return split;
}

}  // namespace stepwatch::config
