#include "operations/discovery/host_lines.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("unchanged memory is not reported again") {
  HostLines lines;
  const auto first = lines.OnMemory("h1", {5, 0.0}, {});
  REQUIRE(first);
  CHECK(first->host == "h1");
  CHECK(first->oom_kill == 0);
  CHECK_FALSE(lines.OnMemory("h1", {5, 0.9}, {}));
  CHECK(lines.OnMemory("h1", {5, 1.1}, {})->psi == 1.1);
  CHECK(lines.OnMemory("h1", {6, 1.1}, {})->oom_kill == 1);
  CHECK_FALSE(lines.OnMemory("h1", {6, 1.1}, {}));
  CHECK(lines.OnMemory("h1", {6, 1.1}, {}, /*reports_same=*/true)->oom_kill == 1);
}

TEST_CASE("pressure that the kernel does not have is absent") {
  HostLines lines;
  CHECK_FALSE(lines.OnMemory("h1", {std::nullopt, std::nullopt}, {})->psi);
  CHECK_FALSE(lines.OnMemory("h1", {std::nullopt, std::nullopt}, {}));
}

TEST_CASE("the cgroup of a run with the least left is reported, as it fills") {
  constexpr double kGib = 1 << 30;
  HostLines lines;
  const auto look = [&](double a, double b) {
    return lines.OnMemory("h1", {0, 0.0},
                          {{"/a", {0, a * kGib, 8 * kGib}}, {"/b", {0, b * kGib, 2 * kGib}}, {"", CgroupMemory()}});
  };
  const auto first = look(4, 1.5);
  REQUIRE(first);
  CHECK(first->cgroup_bytes == 1.5 * kGib);
  CHECK(first->cgroup_bytes_max == 2 * kGib);
  CHECK_FALSE(first->cgroup_oom_kill);
  CHECK_FALSE(look(4, 1.55));
  CHECK(look(7.9, 1.5)->cgroup_bytes_max == 8 * kGib);
}

TEST_CASE("a kill in a cgroup of the run counts for it, and one elsewhere does not") {
  HostLines lines;
  REQUIRE(lines.OnMemory("h1", {3, 0.0}, {{"/a", {1, std::nullopt, std::nullopt}}}));
  const auto killed = lines.OnMemory("h1", {4, 0.0}, {{"/a", {2, std::nullopt, std::nullopt}}});
  REQUIRE(killed);
  CHECK(killed->oom_kill == 1);
  CHECK(killed->cgroup_oom_kill == 1);
  CHECK_FALSE(lines.OnMemory("h1", {5, 0.0}, {{"/a", {2, std::nullopt, std::nullopt}}}));
}

}  // namespace
}  // namespace stepwatch::operations
