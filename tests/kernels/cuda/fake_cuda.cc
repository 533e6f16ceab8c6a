// A driver that answers as the real one does before and after somebody makes it ready.
namespace {

constexpr int kNotInitialized = 3;
int times_made_ready = 0;

}  // namespace

extern "C" {

int cuInit(unsigned) {
  ++times_made_ready;
  return 0;
}

int cuDeviceGetCount(int* count) {
  if (times_made_ready == 0) return kNotInitialized;
  *count = 2;
  return 0;
}

int times_cuda_was_made_ready() {
  return times_made_ready;
}
}
