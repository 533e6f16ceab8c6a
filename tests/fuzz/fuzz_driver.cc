// Drives a fuzz entry where the compiler has no libFuzzer. `PROGRAM COUNT [DIRECTORY]` feeds it the files of a corpus
// and then COUNT mutations of them (COUNT of "60s": as many as 60 seconds give), the same ones unless STEPWATCH_SEED is
// set; `PROGRAM FILE…` repeats inputs. Where a signal ends the program, it leaves the input in PROGRAM-input.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/random_seed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kNewBytesMax = 400;
constexpr size_t kBytesMax = 4096;

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Bytes> ReadCorpus(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const auto& path : paths) corpus.push_back(ReadFile(path));
  return corpus;
}

class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<Bytes> corpus) : random_(seed), corpus_(std::move(corpus)) {}

  Bytes Next() {
    if (corpus_.empty()) return Fresh();
    Bytes bytes = corpus_[random_() % corpus_.size()];
    for (uint64_t i = 1 + random_() % 8; i > 0; --i) Mutate(&bytes);
    bytes.resize(std::min(bytes.size(), kBytesMax));
    return bytes;
  }

 private:
  Bytes Fresh() {
    Bytes bytes(random_() % kNewBytesMax);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }

  void Mutate(Bytes* bytes) {
    const auto at = [&](size_t offset) { return bytes->begin() + static_cast<std::ptrdiff_t>(offset); };
    const size_t begin = random_() % (bytes->size() + 1);
    const size_t end = begin + random_() % (std::min<size_t>(bytes->size() - begin, 16) + 1);
    const Bytes piece(at(begin), at(end));
    const Bytes& other = corpus_[random_() % corpus_.size()];
    switch (random_() % 5) {
      case 0: bytes->erase(at(begin), at(end)); return;
      case 1: bytes->insert(at(random_() % (bytes->size() + 1)), piece.begin(), piece.end()); return;
      case 2:
        if (begin < bytes->size()) (*bytes)[begin] ^= static_cast<uint8_t>(1U << random_() % 8);
        return;
      case 3:
        if (begin < bytes->size()) (*bytes)[begin] = static_cast<uint8_t>(random_());
        return;
      default:
        bytes->erase(at(begin), bytes->end());
        bytes->insert(bytes->end(), other.begin() + static_cast<std::ptrdiff_t>(random_() % (other.size() + 1)),
                      other.end());
    }
  }

  std::mt19937_64 random_;
  const std::vector<Bytes> corpus_;
};

// For the handler of deadly signals.
std::string g_input_path;
Bytes g_input;

void KeepInput(int signal) {
  const int fd = ::open(g_input_path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (::write(fd, g_input.data(), g_input.size()) >= 0) ::close(fd);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Feed(Bytes bytes) {
  g_input = std::move(bytes);
  LLVMFuzzerTestOneInput(g_input.data(), g_input.size());
}

int FeedMutations(const std::string& program, const std::string& amount, const char* directory) {
  const bool timed = amount.back() == 's';
  const uint64_t number = std::strtoull(amount.c_str(), nullptr, 10);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(timed ? number : 0);
  const uint64_t seed = stepwatch::test::RandomSeed();
  const std::vector<Bytes> corpus = directory != nullptr ? ReadCorpus(directory) : std::vector<Bytes>();
  g_input_path = program + "-input";
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, KeepInput);
  for (const Bytes& bytes : corpus) Feed(bytes);
  Mutator mutator(seed, corpus);
  uint64_t fed = 0;
  for (; timed ? std::chrono::steady_clock::now() < end : fed < number; ++fed) Feed(mutator.Next());
  std::printf("%zu files and %llu mutations of them, from STEPWATCH_SEED=%llu\n", corpus.size(),
              static_cast<unsigned long long>(fed), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = argv[0], first = argc > 1 ? argv[1] : "";
  if (first.empty()) return std::fprintf(stderr, "usage: %s COUNT [DIRECTORY], or %s FILE...\n", argv[0], argv[0]), 2;
  const bool is_amount = first.find_first_not_of("0123456789") >= first.size() - (first.back() == 's' ? 1 : 0);
  if (is_amount) return FeedMutations(program, first, argc > 2 ? argv[2] : nullptr);
  for (int i = 1; i < argc; ++i) {
    const Bytes bytes = ReadFile(argv[i]);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
