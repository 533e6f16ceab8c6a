#include "operations/intake/target.h"

#include <algorithm>
#include <charconv>

namespace stepwatch::operations {
namespace {

std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3;
    decoded += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

// Calls `take` for each piece between the separators.
template <class Take>
void Split(std::string_view text, char mark, const Take& take) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(mark), text.size());
    if (end > 0) take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Target ParseTarget(std::string_view target_untrusted) {
  Target target;
  const size_t question = std::min(target_untrusted.find('?'), target_untrusted.size());
  Split(target_untrusted.substr(0, question), '/',
        [&](std::string_view part) { target.parts.push_back(Decoded(part)); });
  if (question == target_untrusted.size()) return target;
  Split(target_untrusted.substr(question + 1), '&', [&](std::string_view pair) {
    const size_t equals = std::min(pair.find('='), pair.size());
    target.query[Decoded(pair.substr(0, equals))] = Decoded(pair.substr(std::min(equals + 1, pair.size())));
  });
  return target;
}

}  // namespace stepwatch::operations
