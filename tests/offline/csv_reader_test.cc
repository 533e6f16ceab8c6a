#include "src/offline/csv_reader.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/offline/offline_fixture.h"

namespace stepwatch::offline {
namespace {

using namespace test;
using Rows = std::vector<std::vector<std::string>>;

struct ReadResult {
  Rows rows;
  std::vector<int64_t> lines;
  bool ends_inside_row = false;
  uint64_t bytes = 0;
};

ReadResult ReadRows(const std::string& text) {
  TemporaryDirectory base;
  Result<CsvReader> reader = CsvReader::Open(Put(base.path(), "x.csv", text));
  REQUIRE(reader.ok());
  ReadResult result;
  std::vector<std::string_view> cells;
  for (;;) {
    const Result<bool> got = reader.value().Next(&cells);
    REQUIRE(got.ok());
    if (!got.value()) break;
    result.rows.emplace_back(cells.begin(), cells.end());
    result.lines.push_back(reader.value().line());
  }
  result.ends_inside_row = reader.value().ends_inside_row();
  result.bytes = reader.value().bytes_read();
  return result;
}

TEST_CASE("cells are split at commas and freed of their quotes") {
  CHECK(ReadRows("a,b,c\n").rows == Rows{{"a", "b", "c"}});
  CHECK(ReadRows("a,,\n").rows == Rows{{"a", "", ""}});
  CHECK(ReadRows("\n").rows == Rows{{""}});
  CHECK(ReadRows("0,\"[5, 4]\",x\n").rows == Rows{{"0", "[5, 4]", "x"}});
  CHECK(ReadRows("\"say \"\"hi\"\"\",\"\"\n").rows == Rows{{"say \"hi\"", ""}});
  CHECK(ReadRows("a\r\nb\r\n").rows == Rows{{"a"}, {"b"}});
  CHECK(ReadRows("\xef\xbb\xbfvpp,name\n").rows == Rows{{"vpp", "name"}});
  CHECK(ReadRows("\"a\"b,c\n").rows == Rows{{"ab", "c"}});
}

TEST_CASE("a quoted cell may hold line breaks, and rows know the line on which they begin") {
  const ReadResult result = ReadRows("h\n\"two\nlines\",x\nlast,y\n");
  CHECK(result.rows == Rows{{"h"}, {"two\nlines", "x"}, {"last", "y"}});
  CHECK(result.lines == std::vector<int64_t>{1, 2, 4});
}

TEST_CASE("what lies behind the last line break is not a row") {
  const ReadResult half = ReadRows("a,b\n1,2\n3,");
  CHECK(half.rows == Rows{{"a", "b"}, {"1", "2"}});
  CHECK(half.ends_inside_row);
  CHECK(!ReadRows("a,b\n1,2\n").ends_inside_row);
  CHECK(ReadRows("").rows.empty());
  CHECK(ReadRows("a\n\"never closed\n").ends_inside_row);
}

TEST_CASE("rows of all lengths come whole out of a file of many blocks") {
  std::string text;
  Rows expected;
  for (size_t i = 0; i < 30000; ++i) {
    const std::string cell(i % 211, static_cast<char>('a' + i % 26));
    text += std::to_string(i) + ",\"" + cell + ",\"\"\"\n";
    expected.push_back({std::to_string(i), cell + ",\""});
  }
  REQUIRE(text.size() > (size_t{3} << 20));
  const ReadResult result = ReadRows(text);
  CHECK(result.rows == expected);
  CHECK(result.bytes == text.size());
  CHECK(result.lines.back() == 30000);
}

TEST_CASE("a path without a readable file is an error") {
  TemporaryDirectory base;
  CHECK(CsvReader::Open(base / "missing.csv").status().code() == StatusCode::kNotFound);
  CHECK(CsvReader::Open(base.path()).status().code() == StatusCode::kInvalid);
}

}  // namespace
}  // namespace stepwatch::offline
