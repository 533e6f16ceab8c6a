// Foreign text in messages, and secrets in foreign text.
#include "operations/delivery/escape.h"

#include "operations/delivery/redact.h"
#include "operations/delivery/secrets.h"
#include "operations/delivery/sign.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

using namespace stepwatch;
using stepwatch::testing::Has;
using namespace stepwatch::operations::delivery;

TEST_CASE("Text is cut between characters") {
  CHECK(Plain("损失", 4) == "损…");
  CHECK(Plain("a\xff", 10) == "a\xef\xbf\xbd");
  CHECK(Plain("a\nb\x1b[0m", 20) == "a\\x0ab\\x1b[0m");
}

TEST_CASE("Each format has its escapes") {
  CHECK(SlackText("<a&b>") == "&lt;a&amp;b&gt;");
  CHECK(FeishuText("[a](b)_*") == "&#91;a&#93;&#40;b&#41;&#95;&#42;");
  CHECK(FullWidthText("[a](b)<@c>") == "［a］(b)＜＠c＞");
  CHECK(PercentEncoded("a b/损~") == "a%20b%2F%E6%8D%9F~");
  CHECK(HeaderText("plain") == "plain");
  CHECK(HeaderText("=?x") == "=?UTF-8?B?PT94?=");
  CHECK(HeaderText("损") == "=?UTF-8?B?5o2f?=");
  CHECK(HeaderText("a\r\nb") == "a\\x0d\\x0ab");
}

TEST_CASE("A long header is folded between characters") {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "损";
  const std::string header = HeaderText(text);
  size_t longest = 0;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 2) {
    end = header.find("\r\n", begin);
    longest = std::max(longest, std::min(end, header.size()) - begin);
  }
  CHECK(longest <= 76);
}

TEST_CASE("Addresses of the web and of mail are told from other text") {
  CHECK(IsWebAddress("https://a.example.org/b?c=d#e"));
  CHECK(IsWebAddress("http://[::1]:80/"));
  for (const char* url : {"", "https://", "https:///x", "ftp://a", "https://u:p@a/", "https://a/ b", "https://a/\"",
                          "https://a/)", "https://a/\n", "javascript:x", "https://损/"})
    CHECK_FALSE(IsWebAddress(url));
  CHECK(IsMailAddress("a.b+c@example.org"));
  for (const char* address : {"", "a", "@b", "a@", "a@b@c", "a b@c", "<a@b>", "a@b,c@d", "-a@b", "a@b\n"})
    CHECK_FALSE(IsMailAddress(address));
}

TEST_CASE("Signatures and their texts are those of the standards") {
  CHECK(Hex(HmacSha256("key", "The quick brown fox jumps over the lazy dog")) ==
        "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8");
  CHECK(Base64("") == "");
  CHECK(Base64("ab") == "YWI=");
}

TEST_CASE("Secrets are removed from text, whole and in parts") {
  const std::vector<std::string> secrets =
      SecretPartsOf("https://hooks.example.org/services/T01234567/abcdefghijkl?key=k1k2k3k4k5");
  const std::string text =
      Redacted("POST /services/T01234567/abcdefghijkl?key=k1k2k3k4k5 abcdefghijkl T01234567 k1k2k3k4k5", secrets);
  for (const char* part : {"abcdefghijkl", "T01234567", "k1k2k3k4k5"}) CHECK_FALSE(Has(text, part));
  CHECK(SecretPartsOf("https://hooks.example.org/").empty());
  CHECK(Redacted("a pass pass", {"pass", ""}) == "a *** ***");
}

TEST_CASE("Secrets are read from files of one line") {
  const testing::TemporaryDirectory directory;
  testing::WriteInPlace(directory / "url", "  https://x/y\n");
  testing::WriteInPlace(directory / "lines", "secret-one\nsecret-two\n");
  testing::WriteInPlace(directory / "empty", "\n");
  testing::WriteInPlace(directory / "large", std::string(kSecretBytesMax + 1, 'x'));
  ReceiverSettings settings;
  settings.url_file = directory / "url";
  base::FileSystem& files = base::FileSystem::Real();
  CHECK(ReadSecrets(settings, files).value().url == "https://x/y");
  for (const char* name : {"lines", "empty", "large", "missing"}) {
    settings.secret_file = directory / name;
    const Result<Secrets> secrets = ReadSecrets(settings, files);
    REQUIRE_FALSE(secrets.ok());
    CHECK(Has(secrets.status().message(), name));
    CHECK_FALSE(Has(secrets.status().message(), "secret-"));
  }
}
