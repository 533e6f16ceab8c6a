// Groups of sites in a config: accepted and refused values, and the places of refusals.

#include <set>

#include "src/config/fields.h"
#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

std::vector<SiteGroup> Groups(const std::string& groups) {
  return Accepted(R"({"stepwatch": {"sites": )" + groups + "}}").config.own.sites;
}

TEST_CASE("a group of sites is read key by key") {
  const auto groups = Groups(R"([{"match": "layers.*.attn", "exclude": ["layers.0.**", "re:.*1.*"],
    "kinds": ["mv_distribution", "actv", "exp_avg"], "every": 10, "ops": ["max", "norm"]}, {"match": "fc"}])");
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].match == "layers.*.attn");
  CHECK(groups[0].exclude == std::vector<std::string>{"layers.0.**", "re:.*1.*"});
  CHECK(groups[0].kinds == std::vector<SiteKind>{SiteKind::kActv, SiteKind::kExpAvg, SiteKind::kExpAvgSq});
  CHECK(groups[0].every == 10);
  CHECK(groups[0].ops == std::vector<Stat>{Stat::kMax, Stat::kNorm, Stat::kShape, Stat::kDtype});
  CHECK(groups[1] == SiteGroup{"fc", {}, {}, 1, {}});
}

TEST_CASE("every kind of tensors of modules and parameters can be named") {
  std::set<SiteKind> named;
  for (const KindWord& known : kKindWords) named.insert(known.kinds.begin(), known.kinds.end());
  for (const SiteKindTraits& traits : kSiteKindTraits) {
    INFO(traits.name);
    const bool is_tensor = traits.owner != SiteOwner::kOperator && !IsFeature(traits.kind) && !HasHeatmap(traits.kind);
    CHECK((named.count(traits.kind) == 1) == is_tensor);
  }
}

TEST_CASE("a group that is not right is refused where it is wrong") {
  struct Case {
    const char* marked;  // the list, with '^' before the place
    StatusCode code;
    const char* key;
    const char* part;
  };
  const Case cases[] = {
      {R"({"match": "a", ^"evry": 10})", kType, "[0].evry", R"((did you mean "every"?))"},
      {R"(^{"kinds": ["actv"]})", kType, "[0]", R"(an object with the key "match")"},
      {R"({"match": "a"}, ^"b")", kType, "[1]", "an object with the keys \"match\""},
      {R"({"match": ^["a"]})", kType, "[0].match", R"(or "re:" and a regular expression)"},
      {R"({"match": "layers.^[ab.c"})", kRange, "[0].match", "a set that is closed"},
      {R"({"match": "re:a^(b"})", kRange, "[0].match", "missing )"},
      {R"({"match": "re:\\d\u00e4\ud83d\ude00\u0061\n/^*+"})", kRange, "[0].match", "bad repetition operator: *+"},
      {R"({"match": "re:x^\\q"})", kRange, "[0].match", "invalid escape sequence"},
      {R"({"match": "a", "exclude": ["b", "c.^.d"]})", kRange, "[0].exclude[1]", "before and after each dot"},
      {R"({"match": "a", "exclude": ["b", ^3]})", kType, "[0].exclude[1]", "a pattern of names"},
      {R"({"match": "a", "exclude": ^"b"})", kType, "[0].exclude", "a list of patterns"},
      {R"({"match": "a", "kinds": ["actv", ^"grad_reducd"]})", kRange, "[0].kinds[1]", R"(mean "grad_reduced"?)"},
      {R"({"match": "a", "kinds": [^1]})", kType, "[0].kinds[0]", "\"actv\", "},
      {R"({"match": "a", "kinds": ^[]})", kRange, "[0].kinds", "at least one kind"},
      {R"({"match": "a", "every": ^-1})", kRange, "[0].every", "from 0 to 100000000"},
      {R"({"match": "a", "every": ^1.5})", kType, "[0].every", "from 0 to 100000000"},
      {R"({"match": "a", "ops": ["norm", ^"maxx"]})", kRange, "[0].ops[1]", R"(did you mean "max"?)"},
      {R"({"match": "a", "ops": ["norm", ^"norm"]})", kRange, "[0].ops[1]", "each statistic once"},
      {R"({"match": "a", "ops": ^[]})", kRange, "[0].ops", "at least one statistic"},
  };
  for (const Case& each : cases) {
    const Status status = RefusalAtMark(R"({"stepwatch": {"sites": [)" + std::string(each.marked) + "]}}");
    INFO(status.ToString());
    CHECK(status.code() == each.code);
    CHECK(status.place().key == "stepwatch.sites" + std::string(each.key));
    CHECK(Has(status.message(), each.part));
  }
}

TEST_CASE("groups and their excludes are bounded in number, and patterns in length") {
  const auto many = [](size_t count, const std::string& each) {
    std::string list;
    for (size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + each;
    return "[" + list + "]";
  };
  CHECK(Groups(many(kSiteGroupsMax, R"({"match": "a"})")).size() == kSiteGroupsMax);
  CHECK(Groups(R"([{"match": "a", "exclude": )" + many(kExcludesMax, "\"b\"") + "}]").size() == 1);
  for (const std::string& groups : {many(kSiteGroupsMax + 1, R"({"match": "a"})"),
                                    R"([{"match": "a", "exclude": )" + many(kExcludesMax + 1, "\"b\"") + "}]",
                                    R"([{"match": ")" + std::string(1001, 'a') + "\"}]"}) {
    const Status status = RefusalOf(R"({"stepwatch": {"sites": )" + groups + "}}");
    CHECK(status.code() == StatusCode::kOutOfRange);
    CHECK(Has(status.message(), "at most "));
  }
}

}  // namespace
}  // namespace stepwatch::config
