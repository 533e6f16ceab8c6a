#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operations/logs/outputs/protocol.h"
#include "src/json/json.h"
#include "src/json/members.h"

namespace stepwatch::operations::outputs {
namespace {

constexpr size_t kIdBytesMax = 512;  // of Elasticsearch
constexpr size_t kBulkReplyBytesMax = size_t{16} << 20;
constexpr size_t kReasonBytesMax = 200;

// The reply in full has some 300 bytes an item.
constexpr std::string_view kQuery = "?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

std::string ReasonOf(const Json& item, int64_t status) {
  const Json& error = json::Part(item, "error");
  return fmt::format("item with status {}: {}: {}", status, json::PrintableText(error, "type", kReasonBytesMax),
                     json::PrintableText(error, "reason", kReasonBytesMax));
}

void TakeItem(const Json& item, const EntryView& entry, Outcome* outcome) {
  const Json& created = json::Part(item, "create");
  const int64_t status = json::Whole(created, "status");
  if (status == 200 || status == 201) {
    ++outcome->accepted;
  } else if (status == 409) {
    ++outcome->duplicates;
  } else {
    outcome->reason = ReasonOf(created, status);
    // Full queues, and shards that move or start.
    if (status == 429 || status >= 500)
      outcome->again += LineOf(entry.id, entry.json);
    else
      ++outcome->rejected;
  }
}

}  // namespace

delivery::Outgoing MakeBulk(const OutputSettings& settings, std::string_view lines) {
  delivery::Outgoing request;
  request.url = fmt::format("{}/{}/_bulk{}", settings.url, settings.index, kQuery);
  request.headers.emplace_back("Content-Type: application/x-ndjson");
  request.reply_bytes_max = kBulkReplyBytesMax;
  request.ca_file = settings.ca_file;
  for (const EntryView& entry : EntriesOf(lines)) {
    Json action = {{"create", Json::object()}};
    if (!entry.id.empty() && entry.id.size() <= kIdBytesMax) action["create"]["_id"] = entry.id;
    request.body += json::Dump(action) + '\n';
    request.body += entry.json;
    request.body += '\n';
  }
  return request;
}

Outcome JudgeBulk(const delivery::Reply& reply, std::string_view lines) {
  // A 400 of the whole request is about the name of the index or the pipeline: faults of a record are those of an item.
  if (reply.status != 200 || !reply.error.empty()) return JudgeStatus(reply, false);
  const Result<Json> parsed = json::Parse(reply.body);
  const std::vector<EntryView> entries = EntriesOf(lines);
  Outcome outcome;
  if (!parsed.ok() || json::List(parsed.value(), "items").size() != entries.size()) {
    outcome.step = Step::kAgain;
    outcome.reason = fmt::format("status 200 without a result for each of the {} records", entries.size());
    return outcome;
  }
  const Json& items = json::List(parsed.value(), "items");
  for (size_t i = 0; i < entries.size(); ++i) TakeItem(items[i], entries[i], &outcome);
  outcome.retry_after = reply.retry_after;
  return outcome;
}

}  // namespace stepwatch::operations::outputs
