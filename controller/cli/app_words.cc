#include "controller/cli/app_words.h"

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <sstream>

namespace stepwatch::cli {
namespace {

// Of "TEXT:{csv,api}".
std::vector<std::string> ChoicesIn(const std::string& type) {
  const size_t begin = type.find('{'), end = type.rfind('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionWords::Value ValueOf(const OptionWords& words, const std::string& type) {
  const std::string& name = words.names.back();
  if (!words.choices.empty()) return OptionWords::Value::kChoice;
  if (name == "JOB" || name == "--job") return OptionWords::Value::kJob;
  if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"))
    return OptionWords::Value::kNumber;
  const bool names_file = name == "FILE" || words.what.find("director") != std::string::npos ||
                          words.what.find("json") != std::string::npos || words.what.find("file") != std::string::npos;
  return names_file ? OptionWords::Value::kFile : OptionWords::Value::kAny;
}

OptionWords WordsOfOption(const CLI::Option& option) {
  OptionWords words;
  if (option.get_positional()) {
    words.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  }
  words.what = option.get_description();
  words.fallback = option.get_default_str();
  words.is_required = option.get_required();
  if (option.get_items_expected_max() == 0) return words;
  words.choices = ChoicesIn(option.get_type_name());
  words.value = ValueOf(words, option.get_type_name());
  return words;
}

void AddOptions(const CLI::App& app, std::vector<OptionWords>* arguments, std::vector<OptionWords>* options) {
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? arguments : options)->push_back(WordsOfOption(*option));
}

}  // namespace

AppWords WordsOf(const CLI::App& app, const std::string& name) {
  AppWords words{name, app.get_description(), app.get_footer(), {}, {}};
  std::vector<OptionWords> none;
  AddOptions(app, &none, &words.options);
  for (const CLI::App* each : app.get_subcommands({})) {
    if (each->get_group().empty()) continue;
    VerbWords verb{each->get_name(), each->get_description(), each->get_footer(), {}, {}};
    AddOptions(*each, &verb.arguments, &verb.options);
    words.verbs.push_back(std::move(verb));
  }
  return words;
}

}  // namespace stepwatch::cli
