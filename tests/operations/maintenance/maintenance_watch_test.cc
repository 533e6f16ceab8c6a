#include "operations/maintenance/maintenance_watch.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

// A watch whose scontrol is a script.
struct Cluster {
  testing::TemporaryDirectory directory;
  boost::asio::io_context loop;
  std::vector<std::string> notes;
  int reads = 0;
  std::unique_ptr<MaintenanceWatch> watch;

  void Answer(const std::string& script) const {
    const std::string path = directory / "scontrol";
    testing::WriteInPlace(path, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  void Start(bool has_slurm, std::chrono::milliseconds time_max = std::chrono::minutes(2)) {
    MaintenanceWatch::Options options;
    if (has_slurm) options.scontrol = directory / "scontrol";
    options.labels_file = directory / "labels";
    options.interval = std::chrono::milliseconds(1);
    options.time_max = time_max;
    options.wall = [] { return 1500.0; };
    options.on_note = [this](const std::string& note) { notes.push_back(note); };
    options.on_windows = [this] { ++reads; };
    watch = std::make_unique<MaintenanceWatch>(loop, std::move(options));
    watch->Start();
  }
  void Await(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (!holds()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      loop.restart();
      (void)loop.run_one_for(std::chrono::seconds(1));
    }
  }
  // Two looks: the second one began after the call.
  void AwaitNewLook() {
    const int before = reads;
    Await([&] { return reads >= before + 2; });
  }
};

constexpr const char* kPrintsPower =
    "echo \"ReservationName=power StartTime=1000 EndTime=2000 Nodes=gpu1 Flags=MAINT Format=$SLURM_TIME_FORMAT $*\"";

TEST_CASE("windows are those that scontrol prints with times in seconds") {
  Cluster cluster;
  cluster.Answer(std::string("test \"$SLURM_TIME_FORMAT $*\" = '%s --oneliner show reservation' || exit 1\n") +
                 kPrintsPower);
  cluster.Start(true);
  CHECK_FALSE(cluster.watch->windows());
  cluster.AwaitNewLook();
  REQUIRE(cluster.watch->windows());
  REQUIRE(cluster.watch->windows()->size() == 1);
  CHECK(cluster.watch->windows()->front().name == "power");
  CHECK(cluster.notes.empty());
}

TEST_CASE("while scontrol fails or hangs the known windows stay, and that is noted once") {
  Cluster cluster;
  cluster.Answer(kPrintsPower);
  const bool hangs = GENERATE(false, true);
  cluster.Start(true, hangs ? std::chrono::milliseconds(300) : std::chrono::milliseconds(120000));
  cluster.Await([&] { return cluster.watch->windows().has_value(); });
  cluster.notes.clear();
  cluster.Answer(hangs ? "exec sleep 1000" : "echo 'slurm_load_reservations error: Unable to contact' >&2; exit 1");
  cluster.Await([&] { return !cluster.notes.empty(); });
  cluster.AwaitNewLook();
  CHECK(cluster.notes.size() == 1);
  CHECK(cluster.watch->windows()->size() == 1);
  if (!hangs) CHECK(cluster.notes[0].find("Unable to contact") != std::string::npos);
  cluster.Answer("echo 'No reservations in the system'");
  cluster.Await([&] { return cluster.watch->windows()->empty(); });
  CHECK(cluster.notes.size() == 2);
}

TEST_CASE("no windows are known before the first answer") {
  Cluster cluster;
  cluster.Start(true);
  cluster.AwaitNewLook();
  CHECK_FALSE(cluster.watch->windows());
  CHECK(cluster.notes.size() == 1);
}

TEST_CASE("output without an end is read up to a limit") {
  Cluster cluster;
  cluster.Answer("exec yes 'ReservationName=power StartTime=1000 EndTime=2000 Nodes=gpu1 Flags=MAINT'");
  cluster.Start(true, std::chrono::milliseconds(200));
  cluster.AwaitNewLook();
  CHECK_FALSE(cluster.watch->windows());
}

TEST_CASE("a label begins a window of all nodes, and its removal ends it") {
  Cluster cluster;
  cluster.Start(false);
  cluster.AwaitNewLook();
  CHECK(cluster.watch->windows()->empty());
  testing::WriteInPlace(cluster.directory / "labels", "maintenance=\"disk-swap\"\n");
  cluster.AwaitNewLook();
  REQUIRE(cluster.watch->windows()->size() == 1);
  CHECK(cluster.watch->windows()->front().name == "disk-swap");
  CHECK(cluster.watch->windows()->front().end_t > 1500);
  std::filesystem::remove(cluster.directory / "labels");
  cluster.AwaitNewLook();
  CHECK(cluster.watch->windows()->empty());
}

TEST_CASE("a watch ends at once while scontrol hangs") {
  Cluster cluster;
  cluster.Answer("echo $$ >" + cluster.directory / "pid" + "; exec sleep 1000");
  cluster.Start(true);
  cluster.Await([&] { return std::filesystem::exists(cluster.directory / "pid"); });
  cluster.watch.reset();
}

}  // namespace
}  // namespace stepwatch::operations
