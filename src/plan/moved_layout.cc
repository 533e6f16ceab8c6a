#include "src/plan/moved_layout.h"

#include <array>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace stepwatch::plan {
namespace {

template <class Entry>
std::pair<int, std::string> KeyOf(const Entry& entry) {
  return {entry.chunk, entry.name};
}
const std::string& KeyOf(const std::string& name) {
  return name;
}

// Maps the entries of one list to their positions in another, by chunk and name.
template <class Entry>
std::vector<uint32_t> PlacesIn(const std::vector<Entry>& now, const std::vector<Entry>& was) {
  std::map<std::decay_t<decltype(KeyOf(now[0]))>, uint32_t> places;
  for (size_t i = 0; i < now.size(); ++i) places.try_emplace(KeyOf(now[i]), static_cast<uint32_t>(i));
  std::vector<uint32_t> found;
  for (const Entry& entry : was) {
    const auto place = places.find(KeyOf(entry));
    found.push_back(place == places.end() ? kNoOwner : place->second);
  }
  return found;
}

}  // namespace

RecordLayout MovedLayout(const RecordLayout& layout, const SiteIndex& was, const SiteIndex& now) {
  const std::array<std::vector<uint32_t>, 3> places_of{PlacesIn(now.modules, was.modules),
                                                       PlacesIn(now.parameters, was.parameters),
                                                       PlacesIn(now.operators, was.operators)};
  RecordLayout moved = layout;
  for (PlannedSite& site : moved.sites) {
    const std::vector<uint32_t>& places = places_of[static_cast<size_t>(OwnerOf(site.kind))];
    site.owner = site.owner < places.size() ? places[site.owner] : kNoOwner;
  }
  return moved;
}

}  // namespace stepwatch::plan
