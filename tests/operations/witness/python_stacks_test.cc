#include "operations/witness/python_stacks.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

constexpr const char* kDump = R"json([
 {"pid": 7, "thread_id": 140, "thread_name": "Thread-1 (pump)",
                     "os_thread_id" : 9, "active" : false,
                     "owns_gil" : false,
                     "frames" : [ {"name" : "get", "filename" : "/usr/lib/queue.py", "line" : 171} ]
},
 {"pid": 7, "thread_id": 141, "thread_name": "MainThread", "os_thread_id": 7, "active": true, "owns_gil": true,
  "frames": [{"name": "forward", "filename": "/job/model.py", "line": 12},
             {"name": "<module>", "filename": "/job/train.py", "line": 40, "locals": null}]}])json";

TEST_CASE("the main thread comes first, with its frames from the innermost on") {
  const auto parsed = ParsePySpy(kDump);
  REQUIRE(parsed.ok());
  CHECK(StacksText(parsed.value()) ==
        "thread 7 \"MainThread\", holds the GIL\n  forward (/job/model.py:12)\n  <module> (/job/train.py:40)\n"
        "thread 9 \"Thread-1 (pump)\"\n  get (/usr/lib/queue.py:171)\n");
}

TEST_CASE("what py-spy prints may be anything") {
  CHECK_FALSE(ParsePySpy("").ok());
  CHECK_FALSE(ParsePySpy("{\"frames\": 1}").ok());
  CHECK_FALSE(ParsePySpy("[{\"thread_name\": \"x\"").ok());
  const auto odd = ParsePySpy(R"([1, null, {"frames": 3}, {"frames": [1, {"name": 5, "line": "x"}]},
                                 {"thread_name": "a\u001b[2J", "os_thread_id": 1e99, "frames": []}])");
  REQUIRE(odd.ok());
  CHECK(odd.value().size() == 5);
  CHECK(odd.value()[4].name == "a\\x1b[2J");
}

TEST_CASE("threads with one stack are told once, and a text without end is cut at a whole thread") {
  std::vector<ThreadStack> threads;
  for (int64_t id = 1; id <= 40; ++id) threads.push_back({id, "pool", false, false, {{"wait", "", 0}}});
  CHECK(StacksText(threads) == "thread 1 \"pool\", and 39 more with this stack\n  wait\n");
  for (size_t i = 0; i < threads.size(); ++i)
    threads[i].frames.assign(kStackFramesMax, {std::string(100, 'f'), "file.py", static_cast<int64_t>(i + 1)});
  const std::string text = StacksText(threads);
  CHECK(text.size() < kStackTextBytesMax + 100);
  CHECK(text.ends_with("\nmore threads are left out\n"));
}

TEST_CASE("gdb and eu-stack are read, too") {
  const auto gdb = ParseDebugger(
      "[New LWP 12]\n\nThread 2 (Thread 0x7f (LWP 12) \"pool\"):\n#0  0x00007f55 in futex () from /lib/libc.so.6\n"
      "Thread 1 (Thread 0x7f (LWP 11) \"train\"):\n#0  0x1 in poll () from /lib/libc.so.6\n"
      "#1  c10d::Work::wait (this=0x1) at Work.cpp:7\n",
      11);
  REQUIRE(gdb.size() == 2);
  CHECK(gdb[0].is_main);
  CHECK(gdb[0].id == 11);
  CHECK(gdb[0].frames[0].function == "poll ()");
  CHECK(gdb[0].frames[0].file == "/lib/libc.so.6");
  CHECK(gdb[0].frames[1].function == "c10d::Work::wait (this=0x1) at Work.cpp:7");
  const auto eu = ParseDebugger("PID 11 - process\nTID 11:\n#0  0x00007f1f3 clock_nanosleep\n#1  0x0000 main\n", 11);
  REQUIRE(eu.size() == 1);
  CHECK(eu[0].is_main);
  CHECK(eu[0].frames[0].function == "clock_nanosleep");
  CHECK(ParseDebugger("ptrace: Operation not permitted.\n", 11).empty());
}

}  // namespace
}  // namespace stepwatch::operations
