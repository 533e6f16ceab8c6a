#include "src/plan/targets.h"

#include <charconv>
#include <limits>

namespace stepwatch::plan {
namespace {

bool ContinuesParameter(std::string_view name, std::string_view text) {
  if (name.substr(0, text.size()) != text) return false;
  if (text.empty() || text.back() == '.') return true;
  return name.size() == text.size() || name[text.size()] == '.';
}

bool OfChunk(const TargetKey& key, int chunk) {
  return key.chunk < 0 || key.chunk == chunk;
}

// What follows the last "." in front of one of the words; empty if there is none.
std::string_view AfterLastDot(std::string_view name, std::string_view word, std::string_view other_word) {
  for (size_t dot = name.rfind('.'); dot != std::string_view::npos;
       dot = dot == 0 ? name.npos : name.rfind('.', dot - 1)) {
    const std::string_view rest = name.substr(dot + 1);
    if (rest.substr(0, word.size()) == word || rest.substr(0, other_word.size()) == other_word) return rest;
  }
  return {};
}

}  // namespace

TargetKey SplitTargetKey(std::string_view key) {
  const size_t colon = key.find(':');
  const size_t digits = key.find_first_not_of("0123456789");
  if (colon == std::string_view::npos || colon == 0 || digits != colon) return {-1, std::string(key)};
  TargetKey split;
  const auto end = std::from_chars(key.data(), key.data() + colon, split.chunk);
  if (end.ec != std::errc()) split.chunk = std::numeric_limits<int>::max();  // no model has it
  split.text = key.substr(colon + 1);
  return split;
}

bool MatchesParameter(const TargetKey& key, int chunk, std::string_view name, std::string_view squashed_name) {
  return OfChunk(key, chunk) && (ContinuesParameter(name, key.text) || ContinuesParameter(squashed_name, key.text));
}

bool MatchesModule(const TargetKey& key, int chunk, std::string_view name, std::string_view squashed_name) {
  return OfChunk(key, chunk) && (name == key.text || squashed_name == key.text);
}

std::string SquashName(std::string_view name) {
  struct Pattern {
    std::string_view word;
    std::string_view other_word;
  };
  static constexpr Pattern kPatterns[] = {
      {"layer.", "layers."}, {"embedding.", "embeddings."}, {"final", "final"}, {"output", "output"}, {"norm", "norm"}};
  for (const Pattern& pattern : kPatterns) {
    const std::string_view rest = AfterLastDot(name, pattern.word, pattern.other_word);
    if (!rest.empty()) return std::string(rest);
  }
  return std::string(name);
}

}  // namespace stepwatch::plan
