#include "operations/provision/render.h"

#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations {
namespace {

TemplateValues Values() {
  return {.texts = {{"name", "value"}, {"address", "outer"}},
          .flags = {{"yes", true}, {"no", false}},
          .lists = {{"hosts", {{{"address", "a"}}, {{"address", "b"}}}}, {"none", {}}}};
}

TEST_CASE("texts replace their names and all other signs stay") {
  CHECK(Render("x@name@@name@ a@b.org @ @Name@\nlast", Values()).value() == "xvaluevalue a@b.org @ @Name@\nlast");
}

TEST_CASE("a flag keeps its lines or those of its else") {
  const std::string text = "%if yes\n1\n%else\n2\n%end\n%if no\n3\n%else\n4\n%end\n%unless no\n5\n%end\n";
  CHECK(Render(text, Values()).value() == "1\n4\n5\n");
}

TEST_CASE("a list repeats its lines, and its texts hide those outside") {
  CHECK(Render("%each hosts\n- @address@ @name@\n%end\n%each none\n- @unknown@\n%end\n@address@\n", Values()).value() ==
        "- a value\n- b value\nouter\n");
}

TEST_CASE("blocks stand inside of blocks") {
  const std::string text =
      "%if no\n%each hosts\n@unknown@\n%if yes\n%end\n%end\n%else\n%each hosts\n%if yes\n@address@\n%end\n%end\n%end\n";
  CHECK(Render(text, Values()).value() == "a\nb\n");
}

TEST_CASE("a mistake in a template is an error with its line") {
  const std::pair<const char*, const char*> mistakes[] = {
      {"\n@other@", "line 2: unknown text other"},   {"%if other\n%end\n", "unknown flag other"},
      {"%each other\n%end\n", "unknown list other"}, {"%if yes\n", "%end is missing"},
      {"%each hosts\n", "%end is missing"},          {"%end\n", "%end without a beginning"},
      {"%else\n", "%else without a beginning"},      {"%while yes\n", "unknown directive %while"}};
  for (const auto& [text, message] : mistakes) {
    const Result<std::string> rendered = Render(text, Values());
    REQUIRE_FALSE(rendered.ok());
    CHECK(testing::Has(rendered.status().message(), message));
  }
}

}  // namespace
}  // namespace stepwatch::operations
