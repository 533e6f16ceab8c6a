#include "src/offline/kinds.h"

#include <algorithm>

#include "src/base/text.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::offline {

namespace {

bool IsMain(const SiteKindTraits& traits) {
  return traits.rows == SiteRows::kOwnFiles && traits.kind != SiteKind::kMgDirection && !IsFeature(traits.kind);
}

// msProbe's order: activations and moments before gradients and parameters.
std::vector<std::string> InTheirOrder() {
  std::vector<std::string> kinds = {SiteKindName(SiteKind::kActv), SiteKindName(SiteKind::kActvGrad),
                                    SiteKindName(SiteKind::kExpAvg), SiteKindName(SiteKind::kExpAvgSq)};
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (IsMain(traits) && std::find(kinds.begin(), kinds.end(), traits.name) == kinds.end())
      kinds.emplace_back(traits.name);
  return kinds;
}

std::vector<std::string> Features() {
  std::vector<std::string> kinds;
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (IsFeature(traits.kind)) kinds.emplace_back(traits.name);
  return kinds;
}

}  // namespace

const std::vector<std::string>& MainKinds() {
  static const std::vector<std::string> kinds = InTheirOrder();
  return kinds;
}

const std::vector<std::string>& FeatureKinds() {
  static const std::vector<std::string> kinds = Features();
  return kinds;
}

Result<std::vector<std::string>> ChooseKinds(const std::vector<std::string>& chosen,
                                             const std::vector<std::string>& known) {
  if (chosen.empty()) return known;
  std::vector<std::string> kinds;
  for (const std::string& kind : chosen) {
    if (std::find(known.begin(), known.end(), kind) == known.end()) {
      std::string list;
      for (const std::string& name : known) list += (list.empty() ? "'" : ", '") + name + "'";
      return Status(StatusCode::kInvalid,
                    "data type(" + base::Printable(kind) + ") is not supported, supported data type: [" + list + "]");
    }
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace stepwatch::offline
