// The options of gpt.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "examples/gpt/model.h"

namespace gpt {

struct Settings {
  std::vector<std::string> text;
  int64_t steps = 200;
  std::string config;
  std::string out;
  ModelOptions model;
  int64_t batch = 8;
  int grad_acc = 1;
  int threads = 0;
  uint64_t seed = 1;
  double learning_rate = 1e-3;
  int64_t eval_every = 50;
  bool quiet = false;
  bool help = false;
};

struct Option {
  std::string name;
  std::string value;  // placeholder of the value in the help; empty: the option has no value
  std::string what;
  std::function<void(const std::string&)> take;
};

inline Option TextOption(const std::string& name, const std::string& what, std::string* text) {
  return {name, "PATH", what, [text](const std::string& given) { *text = given; }};
}

// The value of `number` before parsing is the default shown in the help.
template <typename Number>
Option NumberOption(const std::string& name, const std::string& what, Number* number) {
  std::ostringstream text;
  text << what << " [" << *number << "]";
  return {name, "NUMBER", text.str(), [=](const std::string& given) {
            const char* end = given.data() + given.size();
            const auto [rest, error] = std::from_chars(given.data(), end, *number);
            if (error != std::errc() || rest != end)
              throw std::invalid_argument(name + " takes a number, not \"" + given + "\"");
          }};
}

// An option for a count of at least one.
template <typename Number>
Option CountOption(const std::string& name, const std::string& what, Number* number) {
  constexpr Number kLargest = 1'000'000'000;
  Option option = NumberOption(name, what, number);
  option.take = [name, number, take = option.take](const std::string& given) {
    take(given);
    if (*number < 1 || *number > kLargest)
      throw std::invalid_argument(name + " must be from 1 to " + std::to_string(kLargest) + ", not " + given);
  };
  return option;
}

inline Option Flag(const std::string& name, const std::string& what, bool* flag) {
  return {name, "", what, [flag](const std::string&) { *flag = true; }};
}

inline std::vector<Option> OptionsInto(Settings* settings) {
  const auto add_text = [settings](const std::string& path) { settings->text.push_back(path); };
  ModelOptions* model = &settings->model;
  return {
      {"--text", "PATH", "file or directory to train on; may be given several times [.]", add_text},
      CountOption("--steps", "optimizer steps", &settings->steps),
      TextOption("--config", "the monitor's config.json; without it, the monitor is off", &settings->config),
      TextOption("--out", "the monitor's output directory", &settings->out),
      CountOption("--layers", "blocks", &model->layers),
      CountOption("--width", "features", &model->width),
      CountOption("--heads", "attention heads of a block", &model->heads),
      CountOption("--context", "bytes in a window", &model->context),
      CountOption("--batch", "windows in a micro-batch", &settings->batch),
      CountOption("--grad-acc", "micro-batches in a step", &settings->grad_acc),
      NumberOption("--threads", "0: as LibTorch chooses", &settings->threads),
      NumberOption("--seed", "seed of weights and batches", &settings->seed),
      NumberOption("--lr", "highest learning rate", &settings->learning_rate),
      NumberOption("--eval-every", "steps between evaluations; 0: none", &settings->eval_every),
      Flag("--quiet", "no line per step", &settings->quiet),
      Flag("--help", "print this and exit", &settings->help),
  };
}

inline void PrintHelp() {
  Settings settings;
  std::printf(
      "Trains a small GPT on text, byte by byte, watched and steered by config.json.\n"
      "Usage: gpt [OPTIONS]\n\nOptions:\n");
  for (const Option& option : OptionsInto(&settings))
    std::printf("  %-24s  %s\n", (option.name + " " + option.value).c_str(), option.what.c_str());
}

// Parses "--steps 100" and "--steps=100". Throws for unknown options and for invalid values.
inline Settings ParseSettings(const std::vector<std::string>& words) {
  Settings settings;
  const std::vector<Option> options = OptionsInto(&settings);
  for (auto word = words.begin(); word != words.end(); ++word) {
    const size_t equals = word->find('=');
    const std::string name = *word == "-h" ? "--help" : word->substr(0, equals);
    const auto option = std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
    if (option == options.end()) throw std::invalid_argument("unknown option " + name + "; see gpt --help");
    const bool takes_value = !option->value.empty();
    std::optional<std::string> value;
    if (equals != std::string::npos)
      value = word->substr(equals + 1);
    else if (takes_value && std::next(word) != words.end())
      value = *++word;
    if (value.has_value() != takes_value)
      throw std::invalid_argument(name + (takes_value ? " needs a value" : " takes no value"));
    option->take(value.value_or(""));
    if (settings.help) return settings;
  }
  if (settings.text.empty()) settings.text = {"."};
  if (settings.model.width % settings.model.heads != 0)
    throw std::invalid_argument("--width must be a multiple of --heads");
  return settings;
}

}  // namespace gpt
