#include "src/plan/stale_names.h"

#include <utility>

namespace stepwatch::plan {
namespace {

constexpr size_t kExamplesMax = 3;

// "a", "b" and "c"
std::string List(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + Quoted(words[i]);
  return text;
}

}  // namespace

std::string Quoted(std::string_view text_untrusted) {
  return "\"" + base::Printable(text_untrusted) + "\"";
}

void StaleNames::Add(const std::string& text_untrusted, std::string_view problem, std::string_view instead_untrusted) {
  if (++count_ > kNamedMax) {
    if (examples_.size() < kExamplesMax) examples_.push_back(text_untrusted);
    return;
  }
  std::string message = Quoted(text_untrusted);
  message.append(" ").append(problem).append("; it selects nothing");
  if (!instead_untrusted.empty()) message += " (did you mean " + Quoted(instead_untrusted) + "?)";
  warnings_.push_back({config::Warning::Kind::kNote, {key_, 0, 0}, std::move(message)});
}

std::vector<config::Warning> StaleNames::TakeWarnings() {
  if (count_ > kNamedMax) {
    const size_t further = count_ - kNamedMax;
    warnings_.push_back({config::Warning::Kind::kNote,
                         {key_, 0, 0},
                         std::to_string(further) + (further == 1 ? " further name selects" : " further names select") +
                             " nothing either" + (further > examples_.size() ? ", among them " : ": ") +
                             List(examples_)});
  }
  return std::move(warnings_);
}

}  // namespace stepwatch::plan
