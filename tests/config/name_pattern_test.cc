// Globs and regular expressions over names.

#include "src/config/name_pattern.h"

#include <regex>

#include "tests/config/config_cases.h"
#include "tests/rounds.h"

namespace stepwatch::config {
namespace {

NamePattern Pattern(const std::string& text) {
  PatternFault fault;
  std::optional<NamePattern> pattern = NamePattern::Compile(text, &fault);
  INFO(text << ": " << fault.what);
  REQUIRE(pattern);
  return std::move(*pattern);
}

struct Matching {
  const char* pattern;
  std::vector<std::string> names;   // match it
  std::vector<std::string> others;  // do not
};

void Check(const std::vector<Matching>& table) {
  for (const auto& [pattern, names, others] : table) {
    const NamePattern compiled = Pattern(pattern);
    for (const std::string& name : names)
      if (!compiled.MatchesModule(0, name)) FAIL("\"" << pattern << "\" does not match \"" << name << "\"");
    for (const std::string& name : others)
      if (compiled.MatchesModule(0, name)) FAIL("\"" << pattern << "\" matches \"" << name << "\"");
  }
}

TEST_CASE("a star stays inside of one part of a name") {
  Check({{"layers.*.attn",
          {"layers.0.attn", "layers.11.attn"},
          {"layers.0.inner.attn", "layers.attn", "layers.0.attn.q_proj", "model.layers.0.attn"}},
         {"*_proj", {"q_proj"}, {"attn.q_proj"}},
         {"q*", {"q"}, {}},
         {"*", {}, {""}},
         {"layer?", {"layer1"}, {"layer.", "layer"}}});
}

TEST_CASE("two stars as a whole part are any number of parts") {
  Check({{"**", {"", "a.b.c"}, {}},
         {"layers.**", {"layers", "layers.0.attn"}, {"layers2.0"}},
         {"**.bias", {"bias", "layers.0.fc.bias"}, {"layers.0.fcbias"}},
         {"a.**.d", {"a.d", "a.b.c.d"}, {"ad"}},
         {"**.**.x.**.**", {"x"}, {}}});
}

TEST_CASE("a set is one character, and never a dot") {
  Check({{"layers.[0-3].fc[12]", {"layers.2.fc1"}, {"layers.4.fc1"}},
         {"[!a]b", {"cb"}, {"ab"}},
         {"a[!a]b", {}, {"a.b"}},
         {"[]]", {"]"}, {}},
         {"[a-]", {"-"}, {}},
         {"a[+-9]b", {"a/b"}, {"a.b"}},
         {"[^]", {"^"}, {}}});
}

TEST_CASE("any other character of a glob matches itself") {
  Check({{"a(b|c)+{2}$^\\d", {"a(b|c)+{2}$^\\d"}, {}},
         {"a.b", {}, {"axb"}},
         {"schicht.größe?", {"schicht.größeß"}, {}},
         {"[äö]", {"ö"}, {}},
         {"", {""}, {"fc"}}});
}

TEST_CASE("a regular expression matches the whole name") {
  Check({{R"(re:layers\.\d+\.attn)", {"layers.12.attn"}, {}},
         {R"(re:layers\.\d+)", {}, {"layers.12.attn"}},
         {"re:(?i)FC.*", {"fc.x"}, {}},
         {"re:.*", {"a\nb"}, {}},
         {"re:", {""}, {}}});
}

TEST_CASE("a pattern may be of one chunk") {
  CHECK(Pattern("1:fc").MatchesModule(1, "fc"));
  CHECK_FALSE(Pattern("1:fc").MatchesModule(0, "fc"));
  CHECK(Pattern("1:re:f.").MatchesParameter(1, "fc.weight"));
  CHECK_FALSE(Pattern("1:re:f.").MatchesParameter(2, "fc.weight"));
  CHECK_FALSE(Pattern("99999999999999999999:fc").MatchesModule(0, "fc"));
}

TEST_CASE("a parameter is matched by its name and by those of the modules around it") {
  CHECK(Pattern("layers.*.attn").MatchesParameter(0, "layers.0.attn.q.weight"));
  CHECK(Pattern("layers.*.attn.*.weight").MatchesParameter(0, "layers.0.attn.q.weight"));
  CHECK_FALSE(Pattern("layers.1").MatchesParameter(0, "layers.10.weight"));
  CHECK_FALSE(Pattern("").MatchesParameter(0, "fc.weight"));  // the root alone
  CHECK(Pattern("re:[a-z]*").MatchesParameter(0, "fc.weight"));
}

TEST_CASE("a fault has its place in the text") {
  struct Case {
    const char* text;
    size_t at;
    const char* part;
  };
  const Case cases[] = {
      {"layers.[ab", 7, "a set that is closed"},
      {"a.[b.c]", 2, "contains no dot"},
      {"[z-a]x", 1, "a range from the lower"},
      {"layers**.x", 6, "as a whole part"},
      {"a..b", 2, "before and after each dot"},
      {"a.", 2, "before and after each dot"},
      {"2:.a", 2, "before and after each dot"},
      {"re:a*b|*", 7, "no argument for repetition operator: *"},
      {"re:(ab", 3, "missing )"},
      {"re:ab)", 5, "unexpected )"},
      {"3:re:x[ab", 6, "missing ]"},
      {R"(re:\d\q)", 5, "invalid escape sequence"},
      {"re:a{2000}", 4, "invalid repetition size"},
      {"re:(?<=a)b", 3, "invalid perl operator"},
      {R"(re:(a)\1)", 6, "invalid escape sequence"},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    PatternFault fault;
    CHECK_FALSE(NamePattern::Compile(each.text, &fault));
    INFO(fault.what);
    CHECK_FALSE(fault.too_large);
    CHECK(fault.at == each.at);
    CHECK(Has(fault.what, each.part));
  }
}

TEST_CASE("a pattern is bounded in its length and its program") {
  PatternFault fault;
  CHECK(NamePattern::Compile(std::string(kPatternBytesMax, '?'), &fault));
  CHECK_FALSE(NamePattern::Compile(std::string(kPatternBytesMax + 1, 'a'), &fault));
  CHECK(fault.too_large);
  fault = {};
  CHECK_FALSE(NamePattern::Compile(R"(re:((\pL{100}){10}){1000})", &fault));
  CHECK((fault.too_large || Has(fault.what, "bad repetition") || Has(fault.what, "repetition size")));
  fault = {};
  CHECK_FALSE(NamePattern::Compile(R"(re:(\pL\pN\pL\pN){300}(\pL\pN\pL\pN){300})", &fault));
  CHECK(fault.too_large);
  // A backtracking engine would not end.
  CHECK_FALSE(Pattern("re:(a*)*b").MatchesModule(0, std::string(100000, 'a')));
}

// The documented rules, without a thought for speed.
class SlowGlob {
 public:
  static bool Matches(const std::string& glob, const std::string& name) {
    return Parts(glob.empty() ? std::vector<std::string>() : Split(glob),
                 name.empty() ? std::vector<std::string>() : Split(name));
  }

 private:
  static std::vector<std::string> Split(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (c == '.')
        parts.emplace_back();
      else
        parts.back() += c;
    }
    return parts;
  }
  static std::vector<std::string> Rest(const std::vector<std::string>& parts) {
    return {parts.begin() + 1, parts.end()};
  }
  static bool Parts(const std::vector<std::string>& globs, const std::vector<std::string>& names) {
    if (globs.empty()) return names.empty();
    if (globs[0] == "**") return Parts(Rest(globs), names) || (!names.empty() && Parts(globs, Rest(names)));
    return !names.empty() && Part(globs[0], names[0]) && Parts(Rest(globs), Rest(names));
  }
  static bool Part(const std::string& glob, const std::string& name) {
    if (glob.empty()) return name.empty();
    if (glob[0] == '*') return Part(glob.substr(1), name) || (!name.empty() && Part(glob, name.substr(1)));
    if (name.empty()) return false;
    if (glob[0] != '[') return (glob[0] == '?' || glob[0] == name[0]) && Part(glob.substr(1), name.substr(1));
    const size_t close = glob.find(']', 2);
    return InSet(glob.substr(1, close - 1), name[0]) && Part(glob.substr(close + 1), name.substr(1));
  }
  static bool InSet(std::string set, char c) {
    const bool negated = set[0] == '!';
    if (negated) set.erase(0, 1);
    bool found = false;
    for (size_t i = 0; i < set.size(); ++i) {
      if (i + 2 < set.size() && set[i + 1] == '-') {
        found = found || (set[i] <= c && c <= set[i + 2]);
        i += 2;
      } else {
        found = found || set[i] == c;
      }
    }
    return found != negated;
  }
};

class Words {
 public:
  explicit Words(unsigned seed) : random_(seed) {}

  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  std::string Of(const std::vector<std::string>& words, size_t most, const std::string& between) {
    std::string text;
    for (size_t i = 0, count = 1 + Below(most); i < count; ++i)
      text += (i == 0 ? "" : between) + words[Below(words.size())];
    return text;
  }
  std::string Name() {
    if (Below(20) == 0) return "";
    return Of({"a", "b", "ab", "ba", "abc", "0", "10", "a-b", "a+"}, 4, ".");
  }
  std::string Glob() {
    std::vector<std::string> parts;
    for (int i = 0; i < 6; ++i)
      parts.push_back(Of({"a", "b", "*", "?", "[ab]", "[!a]", "[!a-b]", "[0-9a]", "c", "+", "-"}, 3, ""));
    for (std::string& part : parts)
      for (size_t at; (at = part.find("**")) != std::string::npos;) part.erase(at, 1);
    parts.insert(parts.end(), {"**", "**", "*"});
    return Of(parts, 4, ".");
  }
  std::string Regex() { return Of({"a", "b", "\\.", ".", "a*", "b?", "(a|b)", "(ab)*", "[ab]+", "|", "0"}, 6, ""); }

 private:
  std::mt19937 random_;
};

TEST_CASE("globs match the names that a slow matcher matches") {
  const unsigned seed = TestSeed();
  Words words(seed);
  size_t matched = 0;
  for (int i = 0; i < testing::Rounds(4000); ++i) {
    const std::string glob = words.Glob();
    const NamePattern pattern = Pattern(glob);
    for (int k = 0; k < 15; ++k) {
      const std::string name = words.Name();
      const bool expected = SlowGlob::Matches(glob, name);
      matched += expected ? 1 : 0;
      if (pattern.MatchesModule(0, name) != expected)
        FAIL("\"" << glob << "\" and \"" << name << "\", expected " << expected << "; " << HowToRepeat(seed));
    }
  }
  CHECK(matched > testing::Rounds(size_t{2000}));
}

TEST_CASE("regular expressions match the names that another engine matches") {
  const unsigned seed = TestSeed();
  Words words(seed);
  size_t matched = 0;
  for (int i = 0; i < testing::Rounds(1500, 6); ++i) {
    const std::string text = words.Regex();
    const NamePattern pattern = Pattern("re:" + text);
    const std::regex slow(text);
    for (int k = 0; k < 10; ++k) {
      const std::string name = words.Name();
      const bool expected = std::regex_match(name, slow);
      matched += expected ? 1 : 0;
      if (pattern.MatchesModule(0, name) != expected)
        FAIL("\"" << text << "\" and \"" << name << "\", expected " << expected << "; " << HowToRepeat(seed));
    }
  }
  CHECK(matched > testing::Rounds(size_t{500}));
}

}  // namespace
}  // namespace stepwatch::config
