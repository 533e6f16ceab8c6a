#include "operations/maintenance/windows.h"

#include <string>

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

std::string Reservation(const std::string& name, const std::string& nodes, const std::string& flags,
                        const std::string& begin = "1000", const std::string& end = "2000") {
  return "ReservationName=" + name + " StartTime=" + begin + " EndTime=" + end + " Duration=00:16:40 Nodes=" + nodes +
         " NodeCnt=2 CoreCnt=64 Features=(null) PartitionName=(null) Flags=" + flags +
         " TRES=cpu=64 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) "
         "Watts=n/a MaxStartDelay=(null)\n";
}

TEST_CASE("reservations with the flag MAINT are windows, and others are none") {
  const std::vector<MaintenanceWindow> windows =
      ReservationsIn(Reservation("power", "gpu[1-4]", "MAINT,IGNORE_JOBS,SPEC_NODES") +
                     Reservation("course", "gpu7", "SPEC_NODES") + Reservation("net", "gpu9", "SPEC_NODES,MAINT"));
  REQUIRE(windows.size() == 2);
  CHECK(windows[0].source == "Slurm");
  CHECK(windows[0].name == "power");
  CHECK(windows[0].nodes == "gpu[1-4]");
  CHECK(windows[0].begin_t == 1000);
  CHECK(windows[0].end_t == 2000);
  CHECK(windows[1].name == "net");
}

TEST_CASE("the output of Slurm 22.05 is understood") {
  const std::vector<MaintenanceWindow> windows = ReservationsIn(
      "ReservationName=power StartTime=1795861960 EndTime=1795865560 Duration=01:00:00 Nodes=gpu[01-04,07] NodeCnt=5 "
      "CoreCnt=20 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=20 Users=root "
      "Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n"
      "ReservationName=future StartTime=1796034761 EndTime=1796041961 Duration=02:00:00 Nodes=gpu[01-12],login "
      "NodeCnt=13 CoreCnt=50 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES,ALL_NODES TRES=cpu=50 "
      "Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a "
      "MaxStartDelay=(null)\n"
      "ReservationName=course StartTime=1795948361 EndTime=1795950161 Duration=00:30:00 Nodes=gpu12 NodeCnt=1 "
      "CoreCnt=4 Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=4 Users=root Groups=(null) "
      "Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n");
  REQUIRE(windows.size() == 2);
  CHECK(windows[0].name == "power");
  CHECK(windows[0].begin_t == 1795861960);
  CHECK(windows[0].end_t == 1795865560);
  CHECK(HasNode(windows[0].nodes, "gpu07"));
  CHECK_FALSE(HasNode(windows[0].nodes, "gpu05"));
  CHECK(windows[1].name == "future");
  CHECK(HasNode(windows[1].nodes, "login"));
}

TEST_CASE("text that is no reservation with nodes and times in seconds is no window") {
  CHECK(ReservationsIn("").empty());
  CHECK(ReservationsIn("No reservations in the system\n").empty());
  CHECK(ReservationsIn(Reservation("licences", "(null)", "MAINT")).empty());
  CHECK(ReservationsIn(Reservation("old", "gpu1", "MAINT", "2026-11-28T10:00:00")).empty());
  CHECK(ReservationsIn(Reservation("old", "gpu1", "MAINT", "1000", "Unknown")).empty());
  CHECK(ReservationsIn("ReservationName=cut StartTime=1000 EndTi").empty());
  std::string many;
  for (size_t i = 0; i < 2 * kWindowsMax; ++i) many += Reservation("r" + std::to_string(i), "gpu1", "MAINT");
  CHECK(ReservationsIn(many).size() == kWindowsMax);
}

TEST_CASE("a host is in a list of Slurm by name or by range, with the width of its number") {
  CHECK(HasNode("gpu1,gpu2", "gpu2"));
  CHECK_FALSE(HasNode("gpu1,gpu2", "gpu21"));
  CHECK_FALSE(HasNode("gpu21", "gpu2"));
  CHECK(HasNode("login,gpu[1-16,20],cpu3", "gpu16"));
  CHECK(HasNode("login,gpu[1-16,20],cpu3", "gpu20"));
  CHECK(HasNode("login,gpu[1-16,20],cpu3", "cpu3"));
  CHECK_FALSE(HasNode("login,gpu[1-16,20],cpu3", "gpu17"));
  CHECK_FALSE(HasNode("gpu[1-16]", "gpu01"));
  CHECK(HasNode("gpu[001-128]", "gpu016"));
  CHECK_FALSE(HasNode("gpu[001-128]", "gpu16"));
  CHECK(HasNode("gpu[08-101]", "gpu100"));
  CHECK(HasNode("rack[1-2]node[10-19]-ib", "rack2node15-ib"));
  CHECK_FALSE(HasNode("rack[1-2]node[10-19]-ib", "rack3node15-ib"));
  CHECK_FALSE(HasNode("rack[1-2]node[10-19]-ib", "rack2node15"));
}

TEST_CASE("domains of hosts are not compared") {
  CHECK(HasNode("gpu[1-4]", "gpu3.cluster.example"));
  CHECK(HasNode("gpu3.cluster.example", "gpu3"));
  CHECK_FALSE(HasNode("gpu3.cluster.example", "gpu"));
}

TEST_CASE("a list that is no list has no host and costs no time") {
  for (const char* nodes : {"", ",", "[", "gpu[", "gpu[]", "gpu[-]", "gpu[a-b]", "gpu[5-1]", "]["})
    CHECK_FALSE(HasNode(nodes, "gpu3"));
  std::string brackets;
  for (int i = 0; i < 100; ++i) brackets += "[0-999999999]";
  CHECK_FALSE(HasNode(brackets, std::string(200, '7') + "x"));
}

TEST_CASE("the label maintenance is a window of all nodes, unless it denies it") {
  const std::vector<MaintenanceWindow> windows = LabelledIn("app=\"stepwatchd\"\nmaintenance=\"disk-swap\"\n", 5, 60);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0].source == "Kubernetes");
  CHECK(windows[0].name == "disk-swap");
  CHECK(windows[0].nodes.empty());
  CHECK(windows[0].end_t == 60);
  for (const char* text : {"", "maintenance=\"\"\n", "maintenance=\"false\"\n", "maintenance=\"no\"\n", "x=\"y\"\n"})
    CHECK(LabelledIn(text, 5, 60).empty());
}

const MaintenanceWindow kPower{"Slurm", "power", "gpu[1-4]", 1000, 2000};
const std::vector<RunOnHosts> kRuns = {{"a", {"gpu1", "gpu9"}}, {"b", {"gpu9"}}};

TEST_CASE("the runs on nodes of an open window get a silence each, until its end") {
  CHECK(SilencesFor({kPower}, kRuns, {}, 999).set.empty());
  CHECK(SilencesFor({kPower}, kRuns, {}, 2000).set.empty());
  const SilenceChanges changes = SilencesFor({kPower}, kRuns, {}, 1500);
  REQUIRE(changes.set.size() == 1);
  CHECK(changes.removed.empty());
  CHECK(changes.set[0].run == "a");
  CHECK(changes.set[0].kind.empty());
  CHECK(changes.set[0].by == "Slurm");
  CHECK(changes.set[0].note == "maintenance power");
  CHECK(changes.set[0].until_t == 2000);
  CHECK(SilencesFor({kPower}, kRuns, changes.set, 1600).set.empty());
}

TEST_CASE("a silence follows its window to another end, and ends with it") {
  const std::vector<Silence> present = SilencesFor({kPower}, kRuns, {}, 1500).set;
  MaintenanceWindow longer = kPower;
  longer.end_t = 3000;
  const SilenceChanges moved = SilencesFor({longer}, kRuns, present, 1600);
  REQUIRE(moved.set.size() == 1);
  CHECK(moved.set[0].id == present[0].id);
  CHECK(moved.set[0].until_t == 3000);
  CHECK(moved.removed.empty());
  CHECK(SilencesFor({}, kRuns, present, 1600).removed == std::vector<std::string>{present[0].id});
  CHECK(SilencesFor({kPower}, {}, present, 1600).removed == std::vector<std::string>{present[0].id});
}

TEST_CASE("silences of people stay") {
  const std::vector<Silence> present = {{"9e1d", "a", "", "kim", "", 0, 5000}};
  CHECK(SilencesFor({}, kRuns, present, 1600).removed.empty());
}

TEST_CASE("a window with very many runs silences a bounded number of them") {
  std::vector<RunOnHosts> runs;
  for (int i = 0; i < 3000; ++i) runs.push_back({"r" + std::to_string(i), {"gpu1"}});
  CHECK(SilencesFor({kPower}, runs, {}, 1500).set.size() == kMaintenanceSilencesMax);
}

}  // namespace
}  // namespace stepwatch::operations
