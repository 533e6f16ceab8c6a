// Texts that are not JSON: the sentence and the place.

#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

struct SyntaxCase {
  const char* marked;  // '^' before the first byte that does not fit
  const char* words;   // part of the message
};

void CheckSyntax(const SyntaxCase& syntax) {
  const Status status = RefusalAtMark(syntax.marked);
  INFO(status.ToString());
  CHECK(status.code() == StatusCode::kInvalid);
  CHECK(Has(status.message(), syntax.words));
}

TEST_CASE("a text with nothing in it is called empty") {
  for (const char* marked : {"^", "  \n\t ^", "// {}\n^", "/* {} */^", "// {}^", "\n/**//***/\n //^"})
    CheckSyntax({marked, "the file is empty"});
}

TEST_CASE("a cut text is called cut, with the place of what is still open") {
  const SyntaxCase cut[] = {
      {"{^", "the text ends before the JSON is complete: the '{' at line 1, column 1 is not closed"},
      {"{\"a\"^", "the '{' at line 1, column 1"},
      {"{\"a\":^", "the '{' at line 1, column 1"},
      {"{\"a\":1^", "the '{' at line 1, column 1"},
      {"{\"a\":1 ^", "the '{' at line 1, column 1"},
      {"{\"a\":1,^", "the '{' at line 1, column 1"},
      {"{\"a\":-^", "the '{' at line 1, column 1"},
      {"{\"a\":1.^", "the '{' at line 1, column 1"},
      {"{\"a\":1e^", "the '{' at line 1, column 1"},
      {"{\"a\":1e+^", "the '{' at line 1, column 1"},
      {"{\"a\":tru^", "the '{' at line 1, column 1"},
      {"{\"a\": /^", "the '{' at line 1, column 1"},
      {"{\"a\":\n [1, [2]^", "the '[' at line 2, column 2 is not closed"},
      {"{\"a\":\n [1, [2]]\n^", "the '{' at line 1, column 1 is not closed"},
      {"{\"a\": \"b^", "the string at line 1, column 7 is not closed"},
      {"{\"a\": \"b\\^", "the string at line 1, column 7 is not closed"},
      {"{\"a\": \"b\\u00^", "the string at line 1, column 7 is not closed"},
      {"{\"a\": \"b\\ud83d^", "the string at line 1, column 7 is not closed"},
      {"{\n/* b\n ^", "the comment at line 2, column 1 is not closed"},
      {"{} /* b *^", "the comment at line 1, column 4 is not closed"},
      {"/*/^", "the comment at line 1, column 1 is not closed"},
      {"{\"a\": // b^", "the '{' at line 1, column 1"},
      {"tr^", "the text ends before the JSON is complete"},
  };
  for (const SyntaxCase& one : cut) CheckSyntax(one);
}

TEST_CASE("a token that does not fit is named, with what would") {
  const SyntaxCase unexpected[] = {
      {"^]", "found ']'; expected '{'"},
      {"^,", "found ','; expected '{'"},
      {"{^,}", "found ','; expected a key in double quotes or '}'"},
      {"{^1: 2}", "found '1'; expected a key in double quotes or '}'"},
      {"{\"a\" ^1}", "found '1'; expected ':' and a value"},
      {"{\"a\" ^, 1}", "found ','; expected ':' and a value"},
      {"{\"a\":^:1}", "found ':'; expected a value"},
      {"{\"a\":^,}", "found ','; expected a value"},
      {"{\"a\":^}", "found '}'; expected a value"},
      {"{\"a\":1 ^\"b\":2}", "found \"b\" (a string); expected ',' or '}' (is a comma missing before it?)"},
      {"{\"a\":[1 ^[2]]}", "found '['; expected ',' or ']' (is a comma missing before it?)"},
      {"{\"a\":1,^,}", "found ','; expected a key in double quotes"},
      {"{\"a\":1, /* , */ ^}", "found '}'; expected a key in double quotes (remove the comma before it)"},
      {"{\"a\":[1,\n^]}", "found ']'; expected a value (remove the comma before it)"},
      {"{\"a\":[^,1]}", "found ','; expected a value or ']'"},
      {"{\"a\":[1^:2]}", "found ':'; expected ',' or ']'"},
      {"{\"a\":[1^}", "found '}'; expected ',' or ']'"},
      {"{\"a\":1^]", "found ']'; expected ',' or '}'"},
      {"{} ^{}", "found '{'; expected the end of the text"},
      {"{}^,", "found ','; expected the end of the text"},
      {"{}\n// end\n^x", "found 'x'; expected the end of the text"},
      {"{\"a\": ^True}", "found 'True'; expected a value (write true, false or null)"},
      {"{\"a\": ^None}", "write true, false or null"},
      {"{\"a\": ^NaN}", "JSON has no NaN and no infinity"},
      {"{\"a\": ^-Infinity}", "found '-Infinity'; expected a value (JSON has no NaN and no infinity)"},
      {"{\"a\": ^+1}", "found '+1'; expected a value (a number begins with"},
      {"{\"a\": ^.5}", "found '.5'; expected a value (a number begins with"},
      {"{\"a\": ^1.}", "found '1.'; expected a value (not a number in JSON)"},
      {"{\"a\": ^1.e5}", "found '1.e5'; expected a value"},
      {"{\"a\": ^-x}", "found '-x'; expected a value"},
      {"{\"a\": 0^1}", "found '1'; expected ',' or '}' (a number does not begin with 0)"},
      {"{\"a\": -0^1}", "a number does not begin with 0"},
      {"{\"a\": 1^-2}", "found '-2'; expected ',' or '}'"},
      {"{\"a\": 0^x10}", "found 'x10'; expected ',' or '}'"},
      {"{\"a\": true^e}", "found 'e'; expected ',' or '}'"},
      {"{^'a': 1}", "strings need double quotes"},
      {"{^“a”: 1}", "found the character '“' (U+201C); expected a key in double quotes"},
      {"{^\xc2\xa0}", "found the character U+00A0; expected a key"},
      {"{^\xef\xbb\xbf}", "found the character U+FEFF; expected a key"},
      {"{^\x01}", "found the character U+0001; expected a key"},
      {"{\"a\": 1^; \"b\": 2}", "values are separated by commas"},
      {"{\"a\": 1 ^# one\n}", "comments are // or /* */"},
      {"{\"a\": ^/ 1}", "comments are // or /* */"},
  };
  for (const SyntaxCase& one : unexpected) CheckSyntax(one);
}

TEST_CASE("what is wrong inside a string is named at its place") {
  const SyntaxCase strings[] = {
      {"{\"a\": ^\"b\n\"}", "found \"b, a string that is not closed on its line"},
      {"{\"a\": ^\"b\r\n\"}", "found \"b, a string that is not closed on its line"},
      {"{\"a\": \"b^\tc\"}", "found a tab inside a string; expected \\t"},
      {"{\"a\": \"b^\x1b[2J\"}", "found the control character \\x1b inside a string"},
      {"{\"a\": \"b^\\d\"}", "found '\\d' inside a string"},
      {"{\"C^\\é\": 1}", "found '\\é' inside a string"},
      {"{\"a\": \"^\\u12g4\"}", "found \\u without four hexadecimal digits"},
      {"{\"a\": \"x^\\ud800\"}", "half of a surrogate pair"},
      {"{\"a\": \"x^\\ud800\\u0041\"}", "half of a surrogate pair"},
      {"{\"a\": \"\\ud83d\\ude00^\\udc00\"}", "half of a surrogate pair"},
  };
  for (const SyntaxCase& one : strings) CheckSyntax(one);
}

TEST_CASE("bytes that are no text are refused where they stand, inside comments as well") {
  const std::pair<std::string, const char*> texts[] = {
      {"{\"a\": \"^\xff\"}", "the byte 0xff"},
      {"// \n// é^\xc0\x80\n{}", "the byte 0xc0"},
      {"{} /* ^\xed\xa0\x80 */", "the byte 0xed"},
      {"{} // ^\xf5\x80\x80\x80", "the byte 0xf5"},
      {"{} // ^\xf0\x8f\xbf\xbf", "the byte 0xf0"},
      {"{} // ^\xf4\x90\x80\x80", "the byte 0xf4"},
      {"{} // ^\x80", "the byte 0x80"},
      {"{\"a\": \"^\xe5\xb1", "ends inside a UTF-8 character"},
      {"^\xff\xfe{", "UTF-16"},
  };
  for (const auto& [text, words] : texts) CheckSyntax({text.c_str(), words});
}

TEST_CASE("a zero byte is refused wherever it stands, the end included") {
  for (const std::string& text : {std::string("{}\0", 3), std::string("{}\0garbage", 10), std::string("\0", 1),
                                  std::string("{} // \0", 7), std::string("{\"a\": \"\0\"}", 10)}) {
    const Status status = RefusalOf(text);
    CHECK(status.code() == StatusCode::kInvalid);
    CHECK(Has(status.message(), "zero byte"));
    CHECK(status.place().column == static_cast<int>(text.find('\0')) + 1);
  }
}

TEST_CASE("a key that stands twice in one object is refused with both places") {
  const SyntaxCase duplicates[] = {
      {"{\"ops\": [],\n  ^\"ops\": []}", "the key \"ops\" appears twice in one object, first at line 1, column 2"},
      {"{\"dynamic_on\": true, ^\"dynamic\\u005fon\": true}", "\"dynamic_on\" appears twice"},
      {"{\"\\u0064ynamic_on\": true, \"a\": 1, ^\"dynamic_on\": true}", "first at line 1, column 2"},
      {"{\"targets\": {\"x\": {\"y\": 1,\n\n ^\"y\": 2}}}", "first at line 1, column 20"},
      {"{\"a\": [{\"b\": 1}, {\"b\": 1, ^\"b\": 1}]}", "first at line 1, column 19"},
      {"{\"\": 1, ^\"\": 1}", "the key \"\" appears twice"},
  };
  for (const SyntaxCase& one : duplicates) CheckSyntax(one);
  CHECK(RefusalOf("{\"targets\": {\"x\": [0, {\"y\": 1, \"y\": 2}]}}").place().key == "targets.x[1].y");
}

std::string Nested(int lists) {
  return std::string(lists, '[') + std::string(lists, ']');
}

TEST_CASE("nesting is accepted up to 32 and refused at 33, where it begins") {
  CHECK(ParseConfig("{\"x\": " + Nested(31) + "}").ok());
  const Status status = RefusalOf("{\"x\": " + Nested(32) + "}");
  CHECK(status.code() == StatusCode::kExhausted);
  CHECK(Has(status.message(), "at most 32"));
  CHECK(status.place().column == 38);
  CHECK(RefusalOf("{\"x\": " + std::string(500000, '[')).code() == StatusCode::kExhausted);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK(RefusalOf(objects).code() == StatusCode::kExhausted);
}

TEST_CASE("a text of 1 MiB is accepted, one byte more is not") {
  std::string text = "{} //";
  text.resize(kConfigBytesMax, ' ');
  CHECK(ParseConfig(text).ok());
  const Status status = RefusalOf(text + " ");
  CHECK(status.code() == StatusCode::kExhausted);
  CHECK(Has(status.message(), "1048577 bytes; accepted: at most 1048576"));
  CHECK(status.place().line == 0);
}

TEST_CASE("a number too large for a double is refused wherever it stands") {
  for (const char* text :
       {"{\"x\": ^1e999}", "{\"x\": ^-1e309 }", "{\"x\": [1, ^123456789e400]}", "{\"x\": ^1.8e308}"}) {
    const Status status = RefusalAtMark(text);
    CHECK(status.code() == StatusCode::kOutOfRange);
    CHECK(Has(status.message(), "too large for a double"));
  }
  CHECK(RefusalOf("{\"x\": 1" + std::string(400, '0') + "}").message().size() < 200);
  CHECK(ParseConfig("{\"x\": 1.7976931348623157e308}").ok());
}

TEST_CASE("comments are taken wherever JSON takes white space") {
  CHECK(Accepted("/*a*/{/*b*/\"start_step\"/*c*/:/*d*/12/*e*/,//f\r\"ops\":[/*g*/\"max\"//h\n]/*i*/}//j")
            .config.start_step == 12);
  CHECK(Accepted("{\"targets\": {\"//\": {}, \"/*\": {}, \"*/\\\"//\": {}}}").config.targets ==
        std::vector<std::string>{"//", "/*", "*/\"//"});
  CHECK(Accepted("{/***/\"start_step\"/* ** */: 1 /*/ */}").config.start_step == 1);
}

}  // namespace
}  // namespace stepwatch::config
