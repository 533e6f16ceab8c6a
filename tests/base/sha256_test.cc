#include "src/base/sha256.h"

#include <openssl/crypto.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

namespace stepwatch::base {
namespace {

constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_CASE("the hash of a text is that of FIPS 180-4") {
  CHECK(Sha256Hex("abc") == kOfAbc);
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a thread that outlives OpenSSL's tables still computes a hash") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    OPENSSL_cleanup();
    _exit(Sha256Hex("abc") == kOfAbc ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepwatch::base
