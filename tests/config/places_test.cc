// Lines and columns, with everything that makes bytes and characters differ.

#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

struct PlaceCase {
  const char* text;
  int line;
  int column;
};

TEST_CASE("lines and columns count what an editor shows") {
  const PlaceCase places[] = {
      {"{\"ops\": 1}", 1, 9},
      {"\xef\xbb\xbf{\"ops\": 1}", 1, 9},
      {"\xef\xbb\xbf\n{\"ops\": 1}", 2, 9},
      {"{\n\"ops\": 1}", 2, 8},
      {"{\r\n\"ops\": 1}", 2, 8},
      {"{\r\n\r\n\"ops\": 1}", 3, 8},
      {"{\r\"ops\": 1}", 2, 8},
      {"{\r\r\n\n\"ops\": 1}", 4, 8},
      {"{\t\"ops\":\t1}", 1, 10},
      {"{/* é */\"ops\": 1}", 1, 16},
      {"{\"targets\": {\"层.0\": {}}, \"ops\": 1}", 1, 33},
      {"{/* \xf0\x9f\x98\x80 */\"ops\": 1}", 1, 16},
      {"// \xf0\x9f\x98\x80\n{\"ops\": 1}", 2, 9},
      {"{\"targets\": {\"a\\nb\\u00e9\": {}}, \"ops\": 1}", 1, 40},
      {"{\"ops\":1", 1, 9},
  };
  for (const PlaceCase& place : places) {
    const Status status = RefusalOf(place.text);
    INFO(place.text);
    INFO(status.ToString());
    CHECK(status.place().line == place.line);
    CHECK(status.place().column == place.column);
  }
}

TEST_CASE("places after numbers are right although the lexer reads one byte ahead") {
  for (const char* number : {"1", "-1", "0", "12.5", "1e5", "1E+5", "-0.0e-0"})
    for (const char* gap : {"", " ", "\n", "\r\n", "/**/", "//x\n"})
      for (const char* after : {",^\"ops\" : 1}", ",/**/^\"ops\": 1}"}) {
        // The key's place through a duplicate of it, the value's through its type.
        const std::string text = std::string("{\"ops\": [], \"start_step\": ") + number + gap + after;
        (void)RefusalAtMark(text);
      }
  CHECK(RefusalOf("12").place().column == 1);
  CHECK(RefusalOf(" 12 ").place().column == 2);
  CHECK(RefusalOf("[1,2]").place().column == 1);
  CHECK(RefusalOf("{\"module_ranks\": [1,2,-3]}").place().column == 23);
  CHECK(RefusalOf("{\"module_ranks\": [1,2 , -3 ]}").place().column == 25);
  CHECK(RefusalOf("{\"eps\":7}").place().column == 8);
}

}  // namespace
}  // namespace stepwatch::config
