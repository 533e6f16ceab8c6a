#include "operations/logs/outputs/protocol.h"

#include <fmt/format.h>

#include "src/base/text.h"

namespace stepwatch::operations::outputs {
namespace {

constexpr size_t kBodyBytesInReason = 200;

}  // namespace

std::vector<EntryView> EntriesOf(std::string_view lines) {
  std::vector<EntryView> entries;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 1);
    const size_t tab = line.find('\t');
    if (tab != std::string_view::npos && tab + 1 < line.size())
      entries.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  return entries;
}

std::string LineOf(std::string_view id, std::string_view json) {
  std::string line;
  line.reserve(id.size() + json.size() + 2);
  // An id or a text with a raw tab or newline would be two records.
  for (const char c : id) line += c == '\t' || c == '\n' ? '_' : c;
  line += '\t';
  for (const char c : json) line += c == '\t' || c == '\n' ? ' ' : c;
  return line += '\n';
}

Outcome JudgeStatus(const delivery::Reply& reply, bool refuses_for_good) {
  Outcome outcome;
  outcome.step = Step::kAgain;
  outcome.retry_after = reply.retry_after;
  outcome.reason = reply.status == 0 || !reply.error.empty() ? reply.error : fmt::format("status {}", reply.status);
  if (reply.status != 0 && !reply.body.empty())
    outcome.reason += ": " + base::Printable(reply.body, kBodyBytesInReason);
  const bool is_of_records = reply.status == 400 || reply.status == 422;
  if (reply.status == 413 || (refuses_for_good && is_of_records)) outcome.step = Step::kSendLess;
  return outcome;
}

}  // namespace stepwatch::operations::outputs
