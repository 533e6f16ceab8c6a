// Whether a process uses CUDA is found out without using it.
#include "kernels/cuda/driver_status.h"

#include <dlfcn.h>

#include "tests/catch.h"

namespace stepwatch::kernels::cuda::test {
namespace {

template <class Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

TEST_CASE("a process has devices once it has made the driver ready, and a question does not do that") {
  CHECK_FALSE(DevicesInUse());
  CHECK(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == nullptr);  // nor does it load the driver
  void* driver = ::dlopen(STEPWATCH_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(driver != nullptr);
  CHECK_FALSE(DevicesInUse());
  CHECK(Find<int()>(driver, "times_cuda_was_made_ready")() == 0);
  CHECK(Find<int(unsigned)>(driver, "cuInit")(0) == 0);
  CHECK(DevicesInUse() == 2);
  CHECK(Find<int()>(driver, "times_cuda_was_made_ready")() == 1);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
