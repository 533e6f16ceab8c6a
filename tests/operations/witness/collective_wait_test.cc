#include "operations/witness/collective_wait.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

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

TEST_CASE("whoever computes, loads or sleeps waits for nobody") {
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
