#include "src/base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "src/base/file.h"
#include "tests/catch.h"

namespace stepwatch::base {
namespace {

constexpr size_t kBytes = 8192;

SealedMemory Made() {
  Result<SealedMemory> made = SealedMemory::Make("stepwatch-test", kBytes);
  REQUIRE(made.status().ToString() == "ok");
  return std::move(made).value();
}

TEST_CASE("each holder of its descriptor reads what the maker writes into sealed memory") {
  const SealedMemory memory = Made();
  const Result<Mapping> seen = MapSealed(memory.fd.get(), kBytes, kBytes);
  REQUIRE(seen.status().ToString() == "ok");
  CHECK(static_cast<const char*>(seen.value().data())[kBytes - 1] == 0);
  std::strcpy(static_cast<char*>(memory.mapping.data()), "step 7");
  CHECK(static_cast<const char*>(seen.value().data()) == std::string("step 7"));
}

TEST_CASE("sealed memory neither shrinks nor grows, and takes no other writer") {
  const SealedMemory memory = Made();
  const int fd = memory.fd.get();
  CHECK(::ftruncate(fd, 0) != 0);
  CHECK(::ftruncate(fd, 2 * kBytes) != 0);
  CHECK(::write(fd, "x", 1) < 0);
  CHECK(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  // Nor by opening it again, as the same user may.
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const UniqueFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again.valid()) {
    CHECK(::ftruncate(again.get(), 0) != 0);
    CHECK(::write(again.get(), "x", 1) < 0);
    CHECK(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) == MAP_FAILED);
  }
}

TEST_CASE("a constant text in sealed memory is read and cannot be changed, an empty one as well") {
  const Result<SealedMemory> made = SealedMemory::MakeConstant("stepwatch-test", "fc\0head\0");
  REQUIRE(made.ok());
  CHECK(::pwrite(made.value().fd.get(), "x", 1, 0) < 0);
  const Result<Mapping> seen = MapSealed(made.value().fd.get(), 0, 100);
  REQUIRE(seen.ok());
  CHECK(std::memcmp(seen.value().data(), "fc", 2) == 0);
  const Result<SealedMemory> empty = SealedMemory::MakeConstant("stepwatch-test", "");
  REQUIRE(empty.ok());
  const Result<Mapping> nothing = MapSealed(empty.value().fd.get(), 0, 100);
  REQUIRE(nothing.ok());
  CHECK_FALSE(nothing.value().valid());
}

TEST_CASE("a descriptor that is not sealed, or of another size, is not mapped") {
  const UniqueFd file(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(file.valid());
  REQUIRE(::ftruncate(file.get(), kBytes) == 0);
  CHECK_FALSE(MapSealed(file.get(), kBytes, kBytes).ok());
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK(MapSealed(file.get(), kBytes, kBytes).ok());
  CHECK_FALSE(MapSealed(file.get(), kBytes + 1, 2 * kBytes).ok());
  CHECK_FALSE(MapSealed(file.get(), 1, kBytes - 1).ok());
  const UniqueFd null(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  CHECK_FALSE(MapSealed(null.get(), 0, kBytes).ok());
  CHECK_FALSE(MapSealed(-1, 0, kBytes).ok());
}

TEST_CASE("without a descriptor left sealed memory is an error with the reason") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const Result<SealedMemory> made = SealedMemory::Make("stepwatch-test", kBytes);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().code() == StatusCode::kExhausted);
  CHECK(made.status().message().find("Too many open files") != std::string::npos);
}

TEST_CASE("a limit on the size of files is no signal, but an error") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 100;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Result<SealedMemory> made = SealedMemory::Make("stepwatch-test", kBytes);
  const Result<SealedMemory> constant = SealedMemory::MakeConstant("stepwatch-test", std::string(101, 'x'));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_FALSE(made.ok());
  CHECK_FALSE(constant.ok());
}

}  // namespace
}  // namespace stepwatch::base
