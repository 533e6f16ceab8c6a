// Lines of trainers that report a finished step or an evaluation, to numbers.
//
// Recognised by their first words, so that any other line costs a few comparisons: Megatron, torchtitan, InternEvo,
// NeMo, DeepSpeed, Hugging Face, Lightning, nanoGPT, llm.c, litgpt, OLMo-core, and `Step N: name=number, ...`.
// A field that cannot be read is left out; the others stay.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/json/json.h"
#include "src/logs/record.h"

namespace stepwatch::logs {

inline constexpr size_t kNumbersMax = 64;

// `message` is without prefixes. Nullopt: no line of progress.
std::optional<Progress> FindProgress(std::string_view message);

// The progress in the members of a line that is a JSON object: `step`, numbers at the top, and in `metrics` or
// `progress`.
std::optional<Progress> FindJsonProgress(const Json& object);

// A bar that tqdm drew at the start of a line.
struct ProgressBar {
  std::string_view label;       // before the percentage, without the colon
  std::string_view postfix;     // name=number list in the brackets; empty: none
  std::string_view rest;        // after the bar: text of another writer
  int64_t done = 0, total = 0;  // total 0: unknown
};
std::optional<ProgressBar> FindProgressBar(std::string_view line);

// The progress of a bar with a label such as "Epoch 3"; nullopt: a bar of something else.
std::optional<Progress> ProgressOfBar(const ProgressBar& bar);

// Adds the number under its usual key: "lm loss" as loss, milliseconds as step_seconds, ... Without a usual key, a
// number that is not finite is left out: many trainers print NaN for groups without data.
void AddNumber(std::string_view name, double number, std::string_view unit, Progress* progress);

}  // namespace stepwatch::logs
