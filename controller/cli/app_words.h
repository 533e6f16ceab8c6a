// The verbs and options of a command line as values: what help, completion and manual pages are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stepwatch::cli {

struct OptionWords {
  enum class Value : uint8_t { kNone, kAny, kNumber, kChoice, kFile, kJob };

  std::vector<std::string> names;  // with their dashes: "-k", "--topk"; of an argument its one name: "FILE"
  std::string what;
  std::string fallback;  // as the help shows it; empty: none
  Value value = Value::kNone;
  std::vector<std::string> choices;  // kChoice
  bool is_required = false;
};

struct VerbWords {
  std::string name;
  std::string what;
  std::string footer;
  std::vector<OptionWords> arguments;
  std::vector<OptionWords> options;
};

struct AppWords {
  std::string name;
  std::string what;
  std::string footer;
  std::vector<OptionWords> options;
  std::vector<VerbWords> verbs;  // without hidden ones
};

AppWords WordsOf(const CLI::App& app, const std::string& name);

}  // namespace stepwatch::cli
