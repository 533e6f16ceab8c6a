// The same site under another plan has another number, or none.
#include "src/device/site_lookup.h"

#include "tests/catch.h"

namespace stepwatch::device {
namespace {

RecordLayout Layout() {
  RecordLayout layout;
  for (uint32_t owner : {7u, 2u})
    for (Port port : {Port::kOutput, Port::kInput})
      layout.sites.push_back({SiteKind::kActv, port, owner, 0, port == Port::kInput ? "fc.input" : "fc.output"});
  layout.sites.push_back({SiteKind::kGradReduced, Port::kNone, 2, 0, "fc.weight"});
  layout.sites.push_back({SiteKind::kParamOrigin, Port::kNone, 2, 0, "fc.weight"});
  return layout;
}

TEST_CASE("every site of a plan is found by what it is, in whatever order they come") {
  const RecordLayout layout = Layout();
  const SiteLookup lookup(layout);
  for (SiteId site = 0; site < layout.sites.size(); ++site) CHECK(lookup.Find(KeyOf(layout.sites[site])) == site);
}

TEST_CASE("another kind, port, owner, chunk or name is another site") {
  const SiteLookup lookup(Layout());
  PlannedSite site = Layout().sites[4];
  site.kind = SiteKind::kExpAvg;
  CHECK_FALSE(lookup.Find(KeyOf(site)));
  site = Layout().sites[4];
  site.owner = 3;
  CHECK_FALSE(lookup.Find(KeyOf(site)));
  site = Layout().sites[4];
  site.port = Port::kInput;
  CHECK_FALSE(lookup.Find(KeyOf(site)));
  site = Layout().sites[4];
  site.chunk = 1;
  CHECK_FALSE(lookup.Find(KeyOf(site)));
  site = Layout().sites[4];
  site.name = "fc.bias";
  CHECK_FALSE(lookup.Find(KeyOf(site)));
  CHECK_FALSE(SiteLookup(RecordLayout{}).Find(KeyOf(site)));
}

}  // namespace
}  // namespace stepwatch::device
