#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "operations/logs/outputs/protocol.h"
#include "src/base/parse_number.h"
#include "src/json/json.h"
#include "src/json/members.h"

namespace stepwatch::operations::outputs {
namespace {

constexpr size_t kMessageBytesMax = 200;

// An int64 in JSON of protobuf is a text; some receivers write a number.
int64_t CountOf(const Json& object, const char* name) {
  const std::optional<int64_t> text = base::ParseNumber<int64_t>(json::RawText(object, name));
  return text ? *text : json::Whole(object, name, 0);
}

}  // namespace

delivery::Outgoing MakeOtlpLogs(const OutputSettings& settings, std::string_view lines) {
  delivery::Outgoing request;
  request.url = settings.url + "/v1/logs";
  request.headers.emplace_back("Content-Type: application/json");
  request.ca_file = settings.ca_file;
  request.body =
      R"({"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"stepwatchd"}}]},)"
      R"("scopeLogs":[{"scope":{"name":"stepwatch"},"logRecords":[)";
  bool is_first = true;
  for (const EntryView& entry : EntriesOf(lines)) {
    if (!std::exchange(is_first, false)) request.body += ',';
    request.body += entry.json;
  }
  request.body += "]}]}]}";
  return request;
}

Outcome JudgeOtlpLogs(const delivery::Reply& reply, std::string_view lines) {
  // Loki returns 204.
  if (reply.status / 100 != 2 || !reply.error.empty()) return JudgeStatus(reply, true);
  const auto count = static_cast<int64_t>(EntriesOf(lines).size());
  Outcome outcome;
  outcome.accepted = count;
  const Result<Json> parsed = json::Parse(reply.body);
  if (!parsed.ok()) return outcome;  // an empty body
  const Json& partial = json::Part(parsed.value(), "partialSuccess");
  outcome.rejected = std::clamp<int64_t>(CountOf(partial, "rejectedLogRecords"), 0, count);
  outcome.accepted = count - outcome.rejected;
  if (outcome.rejected > 0)
    outcome.reason = "a part was rejected: " + json::PrintableText(partial, "errorMessage", kMessageBytesMax);
  return outcome;
}

}  // namespace stepwatch::operations::outputs
