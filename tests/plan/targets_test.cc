#include "src/plan/targets.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::plan {
namespace {

bool SelectsModule(const std::string& key, int chunk, const std::string& name, const std::string& squashed_name) {
  return !TargetKeys({key}).OfModule({chunk, name, squashed_name, name}).empty();
}

TEST_CASE("a chunk prefix is digits before the first colon and nothing else") {
  const auto split = [](const char* key) {
    const TargetKey result = SplitTargetKey(key);
    return std::to_string(result.chunk) + "|" + result.text;
  };
  CHECK(split("layers.0") == "-1|layers.0");
  CHECK(split("1:layers.0") == "1|layers.0");
  CHECK(split("0:") == "0|");
  CHECK(split("12:a:b") == "12|a:b");
  CHECK(split("") == "-1|");
  CHECK(split(":a") == "-1|:a");
  CHECK(split("1a:b") == "-1|1a:b");
  CHECK(split("-1:b") == "-1|-1:b");
  CHECK(split("12") == "-1|12");
  CHECK(SplitTargetKey("99999999999999999999:a").chunk == std::numeric_limits<int>::max());
}

TEST_CASE("a parameter is selected by its name or by what it continues with a dot") {
  struct Case {
    const char* key;
    const char* name;
    bool matches;
  };
  constexpr Case kCases[] = {
      {"layers.1", "layers.1.a.weight", true},
      {"layers.1", "layers.1", true},
      {"layers.1", "layers.10.a.weight", false},
      {"layers.1", "layers.1a", false},
      {"layers.1", "xlayers.1", false},
      {"layers.1", "layers", false},
      {"layers.1.", "layers.1.a", true},
      {"layers.1.", "layers.1", false},
      {"layers.1.", "layers.10.a", false},
      {"", "anything", true},
      {"", "", true},
      {"fc.weight", "fc.weight", true},
      {"fc.w", "fc.weight", false},
      {"fc", "module.fc.weight", false},
  };
  for (const Case& each : kCases) {
    INFO("key " << each.key << ", parameter " << each.name);
    CHECK(MatchesParameter(SplitTargetKey(each.key), 0, each.name, each.name) == each.matches);
  }
}

TEST_CASE("raw and squashed names both count") {
  const TargetKey squashed = SplitTargetKey("layers.0");
  CHECK(MatchesParameter(squashed, 0, "module.layers.0.w", "layers.0.w"));
  CHECK(MatchesParameter(SplitTargetKey("module"), 0, "module.layers.0.w", "layers.0.w"));
  CHECK_FALSE(MatchesParameter(squashed, 0, "module.layers.0.w", "module.layers.0.w"));
  CHECK(SelectsModule("layers.0", 0, "module.layers.0", "layers.0"));
  CHECK(SelectsModule("module.layers.0", 0, "module.layers.0", "layers.0"));
}

TEST_CASE("a module is selected by its exact name alone") {
  CHECK(SelectsModule("fc", 0, "fc", "fc"));
  CHECK_FALSE(SelectsModule("fc", 0, "fc.inner", "fc.inner"));
  CHECK_FALSE(SelectsModule("fc.", 0, "fc.inner", "fc.inner"));
  CHECK(SelectsModule("", 0, "", ""));
  CHECK_FALSE(SelectsModule("", 0, "fc", "fc"));
}

TEST_CASE("a key with a chunk holds for that chunk, one without for all") {
  CHECK(SelectsModule("1:fc", 1, "fc", "fc"));
  CHECK_FALSE(SelectsModule("1:fc", 0, "fc", "fc"));
  CHECK(MatchesParameter(SplitTargetKey("1:"), 1, "fc.w", "fc.w"));
  CHECK_FALSE(MatchesParameter(SplitTargetKey("1:"), 2, "fc.w", "fc.w"));
  CHECK(MatchesParameter(SplitTargetKey("fc"), 7, "fc.w", "fc.w"));
}

TEST_CASE("names are squashed at the last dot in front of the first pattern that matches") {
  struct Case {
    const char* name;
    const char* squashed;
  };
  constexpr Case kCases[] = {
      {"module.module.layers.0.w", "layers.0.w"},
      {"encoder.layer.3.attention.w", "layer.3.attention.w"},
      {"a.layers.0.layers.1.w", "layers.1.w"},
      {"a.layers.0.norm.w", "layers.0.norm.w"},  // the pattern of layers is tried first
      {"layers.0.norm.w", "norm.w"},             // no dot in front of "layers"
      {"layers.0.w", "layers.0.w"},
      {"a.layersx.0", "a.layersx.0"},
      {"a.layers", "a.layers"},  // a dot must follow
      {"module.embedding.word.weight", "embedding.word.weight"},
      {"module.embeddings.word.weight", "embeddings.word.weight"},
      {"a.embedding_x.w", "a.embedding_x.w"},
      {"module.final_layernorm.weight", "final_layernorm.weight"},
      {"module.output_layer.weight", "output_layer.weight"},
      {"a.output.final.x", "final.x"},  // final before output
      {"a.norm.output.x", "output.x"},
      {"a.norm1.norm2", "norm2"},
      {"a.b.layernorm", "a.b.layernorm"},
      {".layers.0", "layers.0"},
      {"a.final", "final"},
      {"", ""},
      {".", "."},
  };
  for (const Case& each : kCases) {
    INFO(each.name);
    CHECK(SquashName(each.name) == each.squashed);
  }
}

TEST_CASE("keys in a list are found by the names that they select") {
  const std::vector<std::string> texts = {
      "", "a", "a.", "a.b", "b", "a..", "a..b", ".", "0:", "0:a.b", "1:a", "1:b", "2:", "a.b", ".a", "ab", "a.bc"};
  const TargetKeys keys(texts);
  REQUIRE(keys.size() == texts.size());
  for (const char* raw : {"", "a", "a.b", "a..b", ".a", "ab", "a.b.c", "b.a", "."}) {
    for (const char* squashed : {raw, "b", "a.b"}) {
      for (const int chunk : {0, 1}) {
        INFO("chunk " << chunk << ", \"" << raw << "\", short \"" << squashed << "\"");
        const SiteName name{chunk, raw, squashed, raw};
        std::set<size_t> of_module, of_parameter;
        for (const size_t key : keys.OfModule(name)) of_module.insert(key);
        for (const size_t key : keys.OfParameter(name)) of_parameter.insert(key);
        for (size_t i = 0; i < keys.size(); ++i) {
          INFO("key \"" << texts[i] << "\"");
          CHECK(of_module.count(i) == SelectsModule(texts[i], chunk, raw, squashed));
          CHECK(of_parameter.count(i) == MatchesParameter(keys[i], chunk, raw, squashed));
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepwatch::plan
