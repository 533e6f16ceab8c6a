#include "operations/witness/memory.h"

#include "tests/catch.h"
#include "tests/operations/fake_proc.h"

namespace stepwatch::operations {
namespace {

using testing::FakeProc;

constexpr const char* kUnified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr const char* kLegacy =
    "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw shared:7 - cgroup cgroup rw,memory\n"
    "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST_CASE("the host's memory is read from vmstat and pressure") {
  FakeProc files;
  files.Set("/proc/vmstat", "nr_free_pages 1\noom_kill_x 9\noom_kill 3\nlast 1\n");
  files.Set("/proc/pressure/memory", "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=1.00\n");
  CHECK(ReadHostMemory(files).oom_kill == 3);
  CHECK(ReadHostMemory(files).psi == 12.5);
}

TEST_CASE("values that the kernel does not have are absent, never zero") {
  FakeProc files;
  CHECK_FALSE(ReadHostMemory(files).oom_kill);
  CHECK_FALSE(ReadHostMemory(files).psi);
  files.Set("/proc/vmstat", "oom_kill many\n");
  files.Set("/proc/pressure/memory", "full avg10=1.00\n");
  CHECK_FALSE(ReadHostMemory(files).oom_kill);
  CHECK_FALSE(ReadHostMemory(files).psi);
}

TEST_CASE("a process's cgroup is found in both versions, and the root counts as none") {
  CHECK(CgroupDirectoryIn("0::/slurm/job_5\n", kUnified) == "/sys/fs/cgroup/slurm/job_5");
  CHECK(CgroupDirectoryIn("4:cpu:/a\n3:memory:/docker/ab\n0::/\n", kLegacy) == "/sys/fs/cgroup/memory/docker/ab");
  CHECK(CgroupDirectoryIn("0::/\n", kUnified).empty());
  CHECK(CgroupDirectoryIn("0::/../other\n", kUnified).empty());
  CHECK(CgroupDirectoryIn("0::/pod/x\n", "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n") ==
        "/sys/fs/cgroup/x");
  CHECK(CgroupDirectoryIn("0::/other\n", "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n").empty());
  CHECK(CgroupDirectoryIn("nonsense", "nonsense").empty());
}

TEST_CASE("the memory of a cgroup is read in both versions") {
  FakeProc files;
  files.Set("/sys/fs/cgroup/a/memory.events", "low 0\noom 2\noom_kill 1\noom_group_kill 0\n");
  files.Set("/sys/fs/cgroup/a/memory.current", "100\n");
  files.Set("/sys/fs/cgroup/a/memory.max", "max\n");
  CHECK(ReadCgroupMemory("/sys/fs/cgroup/a", files).oom_kill == 1);
  CHECK(ReadCgroupMemory("/sys/fs/cgroup/a", files).current_bytes == 100);
  CHECK_FALSE(ReadCgroupMemory("/sys/fs/cgroup/a", files).max_bytes);
  files.Set("/sys/fs/cgroup/memory/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  files.Set("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "7\n");
  files.Set("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "8\n");
  CHECK(ReadCgroupMemory("/sys/fs/cgroup/memory/b", files).oom_kill == 4);
  CHECK(ReadCgroupMemory("/sys/fs/cgroup/memory/b", files).max_bytes == 8);
  CHECK_FALSE(ReadCgroupMemory("/sys/fs/cgroup/gone", files).oom_kill);
}

TEST_CASE("kills of the run's own cgroups count, and those of other jobs do not") {
  OomCounter counter;
  CHECK(counter.Count(5, {{"/a", 2}}) == 0);
  CHECK(counter.Count(9, {{"/a", 2}}) == 0);
  CHECK(counter.Count(10, {{"/a", 3}}) == 1);
  CHECK(counter.Count(10, {{"/a", 3}, {"/b", 7}}) == 1);
  CHECK(counter.Count(11, {{"/a", 3}, {"/b", 8}}) == 2);
}

TEST_CASE("a kill with which the cgroup was removed is known by the host's count") {
  OomCounter counter;
  CHECK(counter.Count(5, {{"/a", 0}}) == 0);
  CHECK(counter.Count(6, {{"/a", std::nullopt}}) == 1);
  CHECK(counter.Count(6, {{"/a", std::nullopt}}) == 1);
}

TEST_CASE("a run without a cgroup of its own has the host's count, and a host without one has none") {
  OomCounter counter;
  CHECK(counter.Count(5, {}) == 0);
  CHECK(counter.Count(7, {}) == 2);
  CHECK(counter.Count(std::nullopt, {}) == 2);
  CHECK(counter.Count(8, {{"", std::nullopt}}) == 3);
}

TEST_CASE("a cgroup that begins anew under its name takes nothing back") {
  OomCounter counter;
  CHECK(counter.Count(0, {{"/a", 3}}) == 0);
  CHECK(counter.Count(0, {{"/a", 4}}) == 1);
  CHECK(counter.Count(0, {{"/a", 0}}) == 1);
  CHECK(counter.Count(0, {{"/a", 1}}) == 2);
}

}  // namespace
}  // namespace stepwatch::operations
