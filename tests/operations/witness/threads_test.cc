#include "operations/witness/threads.h"

#include "operations/witness/process_ref.h"
#include "tests/catch.h"
#include "tests/operations/child.h"
#include "tests/operations/fake_proc.h"

namespace stepwatch::operations {
namespace {

using testing::Child;
using testing::FakeProc;
using testing::StatLine;

TEST_CASE("a stopped process shows T, and another letter when it goes on") {
  const Child child;
  child.Send(SIGSTOP);
  CHECK(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'T'; }));
  const auto threads = LookAtThreads(child.pid(), base::FileSystem::Real());
  // A sanitizer may have a thread of its own, which stops a little later.
  REQUIRE_FALSE(threads.empty());
  CHECK(threads[0].id == child.pid());
  CHECK(threads[0].state == 'T');
  child.Send(SIGCONT);
  CHECK(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'S'; }));
}

TEST_CASE("a thread has its wait, as far as this user may see it") {
  FakeProc files;
  files.Set("/proc/7/task/7/stat", StatLine(7, 'D', 5));
  files.Set("/proc/7/task/7/comm", "python\n");
  files.Set("/proc/7/task/7/wchan", "nfs_wait_bit_killable");
  files.Set("/proc/7/task/7/syscall", "0 0x3 0x7f 0x20000 0x0 0x0 0x0 0x7ff 0x7f4\n");
  files.Set("/proc/7/task/7/stack", "[<0>] nfs_wait_bit_killable+0x1e/0x90\n[<0>] nfs_file_read+0x6f/0xc0\n");
  files.Set("/proc/7/task/9/stat", StatLine(9, 'S', 5));
  files.Set("/proc/7/task/9/comm", "pt_gloo\n");
  files.Set("/proc/7/task/9/wchan", "0");
  files.Set("/proc/7/task/9/syscall", "running\n");
  const auto threads = LookAtThreads(7, files);
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].state == 'D');
  CHECK(threads[0].system_call == "read");
  CHECK(threads[0].waits_in == "nfs_wait_bit_killable");
  CHECK(threads[0].kernel_stack == std::vector<std::string>{"nfs_wait_bit_killable", "nfs_file_read"});
  CHECK(threads[1].system_call.empty());
  CHECK(threads[1].waits_in.empty());
  CHECK(ThreadsText(threads) ==
        "thread 7 \"python\": state D, in read, waits in nfs_wait_bit_killable, kernel: nfs_wait_bit_killable < "
        "nfs_file_read\nthread 9 \"pt_gloo\": state S\n");
}

TEST_CASE("a hundred threads that are alike take one line, and the main thread comes first") {
  std::vector<ThreadLook> threads;
  for (int id = 10; id < 110; ++id) threads.push_back({id, "pool", 'S', "futex", "", {}});
  CHECK(ThreadsText(threads) == "100 threads, the first 10, \"pool\": state S, in futex\n");
}

TEST_CASE("a process that is gone has no threads") {
  Child child;
  child.Send(SIGKILL);
  child.Reap();
  CHECK(LookAtThreads(child.pid(), base::FileSystem::Real()).empty());
}

TEST_CASE("what a thread calls itself cannot steer a terminal") {
  FakeProc files;
  files.Set("/proc/7/task/7/comm", "\x1b[2Jx\n");
  CHECK(LookAtThreads(7, files)[0].name == "\\x1b[2Jx");
}

}  // namespace
}  // namespace stepwatch::operations
