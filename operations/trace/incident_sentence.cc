#include <fmt/format.h>

#include "operations/trace/write_line.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kValueBytesMax = 120;

struct ValueText {
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{:.4g}", number); }
  std::string operator()(const std::string& text) const { return base::Printable(text, kValueBytesMax); }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : " ") + (*this)(value);
    return base::Printable(text, kValueBytesMax);
  }
};

}  // namespace

std::string IncidentSentence(const Incident& incident) {
  std::string text = fmt::format("{:.1f} {} {} {} in {}", incident.t, NameOf(incident.state), NameOf(incident.severity),
                                 NameOf(incident.kind), base::Printable(incident.run));
  if (!incident.ranks.empty())
    text += (incident.ranks.size() == 1 ? ", rank " : ", ranks ") + ValueText()(incident.ranks);
  if (incident.since_step) text += fmt::format(", since step {}", *incident.since_step);
  for (const auto& [key, value] : incident.evidence.entries())
    text += "; " + base::Printable(key) + " " + std::visit(ValueText(), value);
  return text + " [" + base::Printable(incident.id) + "]";
}

}  // namespace stepwatch::operations
