// Matches the keys of `targets` against modules and parameters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/config/target_key.h"
#include "src/plan/site_names.h"

namespace stepwatch::plan {

using config::SplitTargetKey;
using config::TargetKey;

// A key selects a parameter whose name equals it or continues it with "."; "" and a key that ends in "." are plain
// prefixes. So "layers.1" selects layers.1.weight and never layers.10.weight.
bool MatchesParameter(const TargetKey& key, int chunk, std::string_view name, std::string_view squashed_name);

// A list of keys, indexed by the names that they select: the work grows with the number of names, not with names times
// keys.
class TargetKeys {
 public:
  explicit TargetKeys(const std::vector<std::string>& texts);
  TargetKeys(TargetKeys&&) = default;
  TargetKeys& operator=(TargetKeys&&) = default;

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  const TargetKey& operator[](size_t i) const { return keys_[i]; }

  // The keys that select a module by its exact name; children are not included. Indices may repeat, here and below.
  std::vector<size_t> OfModule(const SiteName& name) const;
  // The keys that select a parameter, as in MatchesParameter.
  std::vector<size_t> OfParameter(const SiteName& name) const;

 private:
  void Find(std::string_view text, int chunk, std::vector<size_t>* found) const;
  void FindPrefixes(std::string_view name, int chunk, std::vector<size_t>* found) const;

  std::vector<TargetKey> keys_;
  std::unordered_map<std::string_view, std::vector<size_t>> by_text_;  // views of keys_
};

// The short form of squash_name: the text after the last "." in front of layer(s)., embedding(s)., final…, output…,
// norm… (the first of these patterns that matches); the name itself if none does.
std::string SquashName(std::string_view name);

}  // namespace stepwatch::plan
