#include "src/output/history.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "src/base/time_text.h"
#include "src/json/members.h"

namespace stepwatch::output {
namespace {

// Builds one flat object on one line. As in manifest.cc without a tree of values, because destroying one allocates.
class LineText {
 public:
  void Member(std::string_view key, std::string_view value) {
    Key(key);
    text_ += QuotedInHistory(value);
  }
  void Member(std::string_view key, int64_t value) {
    Key(key);
    text_ += std::to_string(value);
  }
  void MemberUnlessEmpty(std::string_view key, std::string_view value) {
    if (!value.empty()) Member(key, value);
  }
  void MemberFrom(int64_t smallest, std::string_view key, int64_t value) {
    if (value >= smallest) Member(key, value);
  }
  void Flag(std::string_view key) {
    Key(key);
    text_ += "true";
  }
  void Object(std::string_view key, const LineText& members) {
    Key(key);
    text_ += members.Take();
  }
  std::string Take() const { return "{" + text_ + "}"; }

 private:
  void Key(std::string_view key) {
    if (!text_.empty()) text_ += ", ";
    text_.append("\"").append(key).append("\": ");
  }

  std::string text_;
};

LineText PeerMembers(const EditPeer& peer) {
  LineText text;
  text.MemberFrom(0, "uid", peer.uid);
  text.MemberFrom(0, "pid", peer.pid);
  text.MemberUnlessEmpty("exe", peer.exe);
  text.MemberFrom(0, "rank", peer.rank);
  return text;
}

LineText LedgerText(const Ledger& ledger) {
  LineText text, dropped;
  text.Member("produced", static_cast<int64_t>(ledger.produced));
  text.Member("written", static_cast<int64_t>(ledger.written));
  for (int i = 0; i < kDropReasonCount; ++i)
    dropped.Member(DropReasonName(static_cast<DropReason>(i)),
                   static_cast<int64_t>(ledger.dropped[static_cast<size_t>(i)]));
  text.Object("dropped", dropped);
  return text;
}

// The hash becomes a file name, so any other content is rejected.
std::string HashOf(const Json& json, const char* key) {
  std::string text = json::RawText(json, key);
  return IsSha256(text) ? text : std::string();
}

std::optional<Ledger> LedgerOf(const Json& json) {
  const Json& found = json::Member(json, "ledger");
  if (!found.is_object()) return std::nullopt;
  Ledger ledger;
  ledger.produced = json::Count(found, "produced");
  ledger.written = json::Count(found, "written");
  const Json& dropped = json::Part(found, "dropped");
  for (int i = 0; i < kDropReasonCount; ++i)
    ledger.dropped[static_cast<size_t>(i)] = json::Count(dropped, DropReasonName(static_cast<DropReason>(i)));
  return ledger;
}

std::optional<EditPeer> PeerOf(const Json& json) {
  const Json& found = json::Member(json, "peer");
  if (!found.is_object()) return std::nullopt;
  return EditPeer{json::Whole(found, "uid"), json::Whole(found, "pid"), json::RawText(found, "exe"),
                  json::Whole(found, "rank")};
}

// 0 if the type cannot hold the value.
template <class Integer>
Integer SmallOf(const Json& json, const char* key) {
  const int64_t number = json::Whole(json, key, 0);
  return number == static_cast<int64_t>(static_cast<Integer>(number)) ? static_cast<Integer>(number) : 0;
}

std::optional<HistoryLine> LineOf(std::string_view text) {
  const Result<Json> parsed = json::Parse(text);
  if (!parsed.ok()) return std::nullopt;
  const Json& json = parsed.value();
  if (!json.is_object() || json::Whole(json, "version", 0) < 1 || json::RawText(json, "outcome").empty())
    return std::nullopt;
  HistoryLine line;
  line.time = json::RawText(json, "time");
  line.run_id = json::RawText(json, "run_id");
  line.job_id = json::RawText(json, "job_id");
  line.pid = SmallOf<int>(json, "pid");
  line.config_path = json::RawText(json, "config");
  line.plan_id = SmallOf<PlanId>(json, "plan_id");
  line.outcome = json::RawText(json, "outcome");
  line.sha256 = HashOf(json, "sha256");
  line.old_sha256 = HashOf(json, "old_sha256");
  line.bytes = json::Whole(json, "bytes");
  line.owner_uid = json::Whole(json, "owner_uid");
  line.modified = json::RawText(json, "modified");
  line.peer = PeerOf(json);
  line.is_volatile = json::IsTrue(json, "volatile");
  line.step = json::Whole(json, "step");
  line.collected = json::Whole(json, "collected");
  line.place = {json::RawText(json, "key"), SmallOf<int>(json, "line"), SmallOf<int>(json, "column")};
  line.message = json::RawText(json, "message");
  line.ledger = LedgerOf(json);
  return line;
}

}  // namespace

std::string PeerText(const EditPeer& peer) {
  std::string text = peer.uid < 0 ? "with the token, over TCP" : "uid " + std::to_string(peer.uid);
  if (peer.pid >= 0) text += ", pid " + std::to_string(peer.pid);
  if (!peer.exe.empty()) text += ", " + peer.exe;
  if (peer.rank >= 0) text += ", at the control socket of rank " + std::to_string(peer.rank);
  return text;
}

std::string QuotedInHistory(std::string_view text) {
  return json::Dump(Json(text));
}

std::string HistoryText(const HistoryLine& line) {
  LineText text;
  text.Member("version", 1);
  text.Member("time", line.time);
  text.Member("outcome", line.outcome);
  text.MemberFrom(1, "plan_id", static_cast<int64_t>(line.plan_id));
  text.MemberFrom(0, "step", line.step);
  text.MemberFrom(0, "collected", line.collected);
  text.MemberUnlessEmpty("message", line.message);
  text.MemberFrom(1, "line", line.place.line);
  text.MemberFrom(1, "column", line.place.column);
  text.MemberUnlessEmpty("key", line.place.key);
  text.MemberUnlessEmpty("sha256", line.sha256);
  text.MemberUnlessEmpty("old_sha256", line.old_sha256);
  text.MemberFrom(0, "bytes", line.bytes);
  text.MemberFrom(0, "owner_uid", line.owner_uid);
  text.MemberUnlessEmpty("modified", line.modified);
  if (line.peer) text.Object("peer", PeerMembers(*line.peer));
  if (line.is_volatile) text.Flag("volatile");
  if (line.ledger) text.Object("ledger", LedgerText(*line.ledger));
  text.Member("config", line.config_path);
  text.Member("run_id", line.run_id);
  text.MemberUnlessEmpty("job_id", line.job_id);
  text.Member("pid", line.pid);
  return text.Take() + "\n";
}

void HistoryReader::Add(std::string_view line_untrusted, bool is_cut_off) {
  std::optional<HistoryLine> line = LineOf(line_untrusted);
  if (line)
    history_.lines.push_back(std::move(*line));
  else if (is_cut_off)
    is_last_torn_ = true;
  else if (!line_untrusted.empty())
    ++left_out_;
}

Result<History> HistoryReader::Take() {
  if (is_last_torn_) history_.notes.push_back("the last line was cut off while it was written, and is left out");
  if (left_out_ > 0)
    history_.notes.push_back(std::to_string(left_out_) + (left_out_ == 1 ? " line is" : " lines are") +
                             " unreadable and left out");
  if (history_.lines.empty() && left_out_ > 0)
    return Status(StatusCode::kInvalid, "not a stepwatch_history.jsonl: no line of it can be read");
  return std::move(history_);
}

Result<History> ReadHistory(std::string_view text_untrusted) {
  HistoryReader reader;
  for (size_t begin = 0; begin < text_untrusted.size();) {
    const size_t end = std::min(text_untrusted.find('\n', begin), text_untrusted.size());
    reader.Add(text_untrusted.substr(begin, end - begin), end == text_untrusted.size());
    begin = end + 1;
  }
  return reader.Take();
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string UtcText(int64_t nanoseconds_since_1970) {
  const std::time_t seconds = nanoseconds_since_1970 / 1'000'000'000;
  const auto milliseconds = static_cast<int>(nanoseconds_since_1970 / 1'000'000 % 1000);
  char fraction[8];
  std::snprintf(fraction, sizeof fraction, ".%03dZ", milliseconds);
  return base::UtcText(seconds, "%Y-%m-%dT%H:%M:%S") + fraction;
}

}  // namespace stepwatch::output
