#include "src/logs/literals.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "src/base/check.h"

namespace stepwatch::logs {
namespace {

constexpr int kHashBits = 17;  // 16 KiB of bits, so that they stay in the first cache

char Fold(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}
bool EqualsFolded(std::string_view text, std::string_view folded) {
  return std::equal(text.begin(), text.end(), folded.begin(), folded.end(),
                    [](char a, char b) { return Fold(a) == b; });
}
bool IsWordByte(char c) {
  return (c >= '0' && c <= '9') || (Fold(c) >= 'a' && Fold(c) <= 'z');
}

// Coarser than Fold, and therefore only a first test: it also joins pairs such as '[' and '{'.
uint32_t GramAt(const char* text) {
  uint32_t gram;
  std::memcpy(&gram, text, sizeof gram);
  return gram | 0x20202020u;
}

uint32_t HashOf(uint32_t gram) {
  return (gram * 2654435761u) >> (32 - kHashBits);
}

// Rank of a letter in logs, the most frequent first; other bytes but space are rare.
size_t Frequency(char c) {
  constexpr std::string_view kFrequent = " etaoinsrlcdpumfgh0b1y";
  const size_t at = kFrequent.find(c);
  return at == std::string_view::npos ? 0 : kFrequent.size() - at;
}

}  // namespace

Literals::Literals(const std::vector<std::string>& words) {
  for (const std::string& each : words) {
    Word word;
    for (const char c : each) word.folded += Fold(c);
    if (word.folded.ends_with('$')) {
      word.ends = true;
      word.folded.pop_back();
    }
    if (const size_t tilde = word.folded.find('~'); tilde != std::string::npos) {
      word.not_before = word.folded.substr(tilde + 1);
      word.folded.resize(tilde);
    }
    size_t least = std::numeric_limits<size_t>::max();
    for (size_t at = 0; at + kLengthMin <= word.folded.size(); ++at) {
      size_t frequency = 0;
      for (size_t i = at; i < at + kLengthMin; ++i) frequency += Frequency(word.folded[i]);
      if (frequency >= least) continue;
      least = frequency;
      word.offset = at;
    }
    word.gram = GramAt(word.folded.data() + word.offset);
    const uint32_t hash = HashOf(word.gram);
    bits_[hash / 64] |= uint64_t{1} << (hash % 64);
    words_.push_back(std::move(word));
  }
  STEPWATCH_CHECK(words_.size() <= std::numeric_limits<uint16_t>::max());
  const auto bucket = [](const Word& word) { return HashOf(word.gram) % kBuckets; };
  std::stable_sort(words_.begin(), words_.end(),
                   [&bucket](const Word& a, const Word& b) { return bucket(a) < bucket(b); });
  for (const Word& word : words_) ++buckets_[bucket(word) + 1];
  for (size_t i = 1; i <= kBuckets; ++i) buckets_[i] = static_cast<uint16_t>(buckets_[i] + buckets_[i - 1]);
}

bool Literals::IsAt(const Word& word, std::string_view text, size_t position) const {
  if (position < word.offset) return false;
  const size_t begin = position - word.offset, end = begin + word.folded.size();
  if (end > text.size() || (word.ends && end < text.size() && IsWordByte(text[end]))) return false;
  if (!EqualsFolded(text.substr(begin, word.folded.size()), word.folded)) return false;
  return word.not_before.empty() || !EqualsFolded(text.substr(end, word.not_before.size()), word.not_before);
}

bool Literals::AnyAt(std::string_view text, size_t position, uint32_t gram, uint32_t hash) const {
  const size_t bucket = hash % kBuckets;
  for (size_t i = buckets_[bucket]; i < buckets_[bucket + 1]; ++i)
    if (words_[i].gram == gram && IsAt(words_[i], text, position)) return true;
  return false;
}

bool Literals::AnyIn(std::string_view text) const {
  if (text.size() < kLengthMin) return false;
  const size_t end = text.size() - kLengthMin + 1;
  for (size_t at = 0; at < end; ++at) {
    const uint32_t gram = GramAt(text.data() + at);
    const uint32_t hash = HashOf(gram);
    if ((bits_[hash / 64] >> (hash % 64) & 1) != 0 && AnyAt(text, at, gram, hash)) return true;
  }
  return false;
}

}  // namespace stepwatch::logs
