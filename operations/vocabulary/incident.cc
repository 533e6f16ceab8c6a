#include "operations/vocabulary/incident.h"

#include <algorithm>

namespace stepwatch::operations {

void Evidence::Set(std::string_view key, EvidenceValue value) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.first == key; });
  if (found == entries_.end())
    entries_.emplace_back(key, std::move(value));
  else
    found->second = std::move(value);
}

const EvidenceValue* Evidence::Find(std::string_view key) const {
  for (const Entry& entry : entries_)
    if (entry.first == key) return &entry.second;
  return nullptr;
}

void Evidence::Merge(const Evidence& other) {
  for (const Entry& entry : other.entries_) Set(entry.first, entry.second);
}

}  // namespace stepwatch::operations
