#include "src/plan/targets.h"

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

// The text after the last "." in front of one of the words; empty if there is none.
std::string_view AfterLastDot(std::string_view name, std::string_view word, std::string_view other_word) {
  for (size_t dot = name.rfind('.'); dot != std::string_view::npos;
       dot = dot == 0 ? name.npos : name.rfind('.', dot - 1)) {
    const std::string_view rest = name.substr(dot + 1);
    if (rest.substr(0, word.size()) == word || rest.substr(0, other_word.size()) == other_word) return rest;
  }
  return {};
}

}  // namespace

bool MatchesParameter(const TargetKey& key, int chunk, std::string_view name, std::string_view squashed_name) {
  return OfChunk(key, chunk) && (ContinuesParameter(name, key.text) || ContinuesParameter(squashed_name, key.text));
}

TargetKeys::TargetKeys(const std::vector<std::string>& texts) {
  keys_.reserve(texts.size());  // keeps the views valid
  for (const std::string& text : texts) {
    keys_.push_back(SplitTargetKey(text));
    by_text_[keys_.back().text].push_back(keys_.size() - 1);
  }
}

std::vector<size_t> TargetKeys::OfModule(const SiteName& name) const {
  std::vector<size_t> found;
  for (const std::string_view spelling : name.Spellings()) Find(spelling, name.chunk, &found);
  return found;
}

std::vector<size_t> TargetKeys::OfParameter(const SiteName& name) const {
  std::vector<size_t> found;
  for (const std::string_view spelling : name.Spellings()) FindPrefixes(spelling, name.chunk, &found);
  return found;
}

void TargetKeys::Find(std::string_view text, int chunk, std::vector<size_t>* found) const {
  const auto keys = by_text_.find(text);
  if (keys == by_text_.end()) return;
  for (const size_t i : keys->second)
    if (OfChunk(keys_[i], chunk)) found->push_back(i);
}

// The texts that ContinuesParameter accepts for a name: the empty one, the name, and its prefixes that end before or
// after one of its dots.
void TargetKeys::FindPrefixes(std::string_view name, int chunk, std::vector<size_t>* found) const {
  Find("", chunk, found);
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (dot > 0) Find(name.substr(0, dot), chunk, found);
    if (dot + 1 < name.size()) Find(name.substr(0, dot + 1), chunk, found);
  }
  if (!name.empty()) Find(name, chunk, found);
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
