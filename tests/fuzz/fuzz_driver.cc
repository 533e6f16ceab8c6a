// Feeds a fuzz entry random strings of bytes, for compilers without libFuzzer: `PROGRAM COUNT`, the seed being
// STEPWATCH_SEED or fresh; or, to repeat one, `PROGRAM FILE…`.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void FeedRandom(uint64_t count) {
  const char* given = std::getenv("STEPWATCH_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("%llu inputs; repeat with STEPWATCH_SEED=%llu\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<uint8_t> bytes(random() % 400);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

bool FeedFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::fprintf(stderr, "cannot read %s\n", path), false;
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s COUNT, or %s FILE...\n", argv[0], argv[0]), 2;
  if (argc == 2 && IsNumber(argv[1])) return FeedRandom(std::strtoull(argv[1], nullptr, 10)), 0;
  bool all_read = true;
  for (int i = 1; i < argc; ++i) all_read = FeedFile(argv[i]) && all_read;
  return all_read ? 0 : 1;
}
