#include "src/sockets/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/has.h"
#include "tests/sockets/token.h"
#include "tests/temporary_directory.h"

namespace stepwatch::sockets {
namespace {

using testing::Has;

struct OneFile {
  void Write(const std::string& text, mode_t mode = 0600) {
    testing::WriteByRename(path, text);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  std::string Refusal(uid_t owner = ::geteuid()) const {
    TokenFile token(path, owner, base::FileSystem::Real());
    const Status found = token.Look();
    CHECK_FALSE(found.ok());
    CHECK(token.sha256().empty());
    CHECK_FALSE(token.IsToken(""));
    CHECK_FALSE(token.IsToken(kToken));
    return found.message();
  }

  testing::TemporaryDirectory directory;
  const std::string path = directory / "token";
};

TEST_CASE("a token is what the file holds, without the end of its line") {
  OneFile file;
  for (const char* end : {"", "\n", "\r\n"}) {
    file.Write(kToken + end);
    TokenFile token(file.path, ::geteuid(), base::FileSystem::Real());
    REQUIRE(token.Look().ToString() == "ok");
    CHECK(token.IsToken(kToken));
    CHECK_FALSE(token.IsToken(kToken + "0"));
    CHECK_FALSE(token.IsToken(kToken.substr(1)));
    CHECK_FALSE(token.IsToken(""));
    CHECK(token.sha256() != kToken);
  }
  file.Write(kToken, 0400);
  CHECK(TokenFile(file.path, ::geteuid(), base::FileSystem::Real()).Look().ok());
}

TEST_CASE("a file that somebody else could read or replace holds no token") {
  OneFile file;
  CHECK(Has(file.Refusal(), "No such file"));
  for (const mode_t mode : {0640, 0604, 0620, 0601}) {
    file.Write(kToken, mode);
    CHECK(Has(file.Refusal(), "it must be 0600"));
  }
  file.Write(kToken);
  CHECK(Has(file.Refusal(::geteuid() + 1), "belongs to uid"));
  const std::string real = file.directory / "real";
  REQUIRE(::rename(file.path.c_str(), real.c_str()) == 0);
  REQUIRE(::symlink(real.c_str(), file.path.c_str()) == 0);
  CHECK(Has(file.Refusal(), "is a symbolic link"));
  REQUIRE(::unlink(file.path.c_str()) == 0);
  REQUIRE(::mkfifo(file.path.c_str(), 0600) == 0);
  CHECK(Has(file.Refusal(), "is not a regular file"));
  REQUIRE(::unlink(file.path.c_str()) == 0);
  REQUIRE(::mkdir(file.path.c_str(), 0700) == 0);
  CHECK(Has(file.Refusal(), "is not a regular file"));
}

TEST_CASE("what could be guessed, or is no token, is refused without being shown") {
  OneFile file;
  for (const std::string& text : {std::string(), std::string("secret"), std::string(15, 'x')}) {
    file.Write(text);
    CHECK(Has(file.Refusal(), "a token has 16 to 1024"));
    CHECK_FALSE(Has(file.Refusal(), "secret"));
  }
  file.Write(std::string(2000, 'x'));
  CHECK(Has(file.Refusal(), "a token has 16 to 1024"));
  file.Write(std::string(1 << 20, 'x'));
  CHECK(Has(file.Refusal(), "cannot be read"));
  for (const std::string& text : {kToken + "\n" + kToken, kToken + " ", std::string(20, '\0'), kToken + "\xc3\xa9"}) {
    file.Write(text);
    CHECK(Has(file.Refusal(), "does not hold exactly one token"));
  }
}

TEST_CASE("a replaced token holds from the next look on, and a removed one is gone") {
  OneFile file;
  file.Write(kToken);
  TokenFile token(file.path, ::geteuid(), base::FileSystem::Real());
  REQUIRE(token.Look().ok());
  const std::string next(40, 'n');
  file.Write(next);
  REQUIRE(token.Look().ok());
  CHECK(token.IsToken(next));
  CHECK_FALSE(token.IsToken(kToken));
  REQUIRE(::chmod(file.path.c_str(), 0644) == 0);
  CHECK_FALSE(token.Look().ok());
  CHECK_FALSE(token.IsToken(next));
  REQUIRE(::chmod(file.path.c_str(), 0600) == 0);
  REQUIRE(token.Look().ok());
  CHECK(token.IsToken(next));
  REQUIRE(::unlink(file.path.c_str()) == 0);
  CHECK_FALSE(token.Look().ok());
  CHECK(token.sha256().empty());
}

}  // namespace
}  // namespace stepwatch::sockets
