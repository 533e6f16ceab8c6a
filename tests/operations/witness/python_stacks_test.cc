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

TEST_CASE("threads with one stack are printed once, and a text without end is cut at a whole thread") {
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

constexpr const char* kC10d = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";

ThreadStack Main(std::vector<StackFrame> frames) {
  return {1, "MainThread", true, false, std::move(frames)};
}

TEST_CASE("a call of torch.distributed is a wait for the others, by its name") {
  CHECK(CollectiveIn({Main({{"all_reduce", kC10d, 2800}, {"wrapper", "/torch/c10d_logger.py", 81}})}) == "all_reduce");
  CHECK(CollectiveIn({Main({{"barrier", kC10d, 1}, {"<module>", "train.py", 3}})}) == "barrier");
  CHECK(CollectiveIn({Main({{"_store_based_barrier", kC10d, 1}, {"init_process_group", kC10d, 1}})}) ==
        "_store_based_barrier");
}

TEST_CASE("a wait in the backward pass shows in native frames") {
  CHECK(CollectiveIn({Main({{"pthread_cond_wait", "libc.so.6", 0},
                            {"c10d::Work::wait(std::chrono::duration<long>)", "libtorch_cpu.so", 0},
                            {"c10d::Reducer::finalize_backward()", "libtorch_cpu.so", 0},
                            {"_engine_run_backward", "torch/autograd/graph.py", 823}})}) == "all_reduce");
  CHECK(
      CollectiveIn({{2, "pt_autograd_0", false, false, {{"gloo::transport::tcp::UnboundBuffer::waitRecv", "", 0}}}}) ==
      "collective");
}

TEST_CASE("the name of the operation is the one that the program has called") {
  CHECK(CollectiveIn({Main({{"c10d::Work::wait()", "", 0},
                            {"c10d::ProcessGroup::allgather", "", 0},
                            {"all_gather_into_tensor", kC10d, 1}})}) == "all_gather_into_tensor");
}

TEST_CASE("a thread that computes, loads or sleeps waits for no peer") {
  CHECK_FALSE(
      CollectiveIn({Main({{"forward", "/job/model.py", 12}, {"_call_impl", "torch/nn/modules/module.py", 1}})}));
  CHECK_FALSE(CollectiveIn({Main({{"reduce", "/usr/lib/functools.py", 1}})}));
  CHECK_FALSE(CollectiveIn({Main({{"send", "/usr/lib/multiprocessing/connection.py", 1}})}));
  CHECK_FALSE(CollectiveIn({Main({{"get_rank", kC10d, 1}})}));
  CHECK_FALSE(CollectiveIn({}));
}

TEST_CASE("another thread's collective is not the training's") {
  CHECK_FALSE(
      CollectiveIn({Main({{"forward", "model.py", 1}}), {2, "ckpt-writer", false, false, {{"barrier", kC10d, 1}}}}));
}

}  // namespace
}  // namespace stepwatch::operations
