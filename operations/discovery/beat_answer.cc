#include "operations/discovery/beat_answer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "operations/trace/parse_line.h"
#include "src/json/members.h"

namespace stepwatch::operations {
namespace {

constexpr std::string_view kBeats = "\"beats\":[";
constexpr size_t kHeadBytesMax = 4096;

// The object at the beginning of the text, up to its last brace; empty: it has no end.
std::string_view ObjectAt(std::string_view text) {
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char byte = text[i];
    if (is_text) {
      if (byte == '\\')
        ++i;
      else if (byte == '"')
        is_text = false;
    } else if (byte == '"') {
      is_text = true;
    } else if (byte == '{') {
      ++depth;
    } else if (byte == '}' && --depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  return {};
}

Status NoAnswer() {
  return Status(StatusCode::kInvalid, "the response of the control socket is not a page of beats");
}

}  // namespace

// The lines come last, and each is parsed once.
Result<BeatAnswer> ParseBeatAnswer(std::string_view json_untrusted) {
  const size_t beats = json_untrusted.substr(0, kHeadBytesMax).find(kBeats);
  if (beats == std::string_view::npos) return NoAnswer();
  const Result<Json> parsed = json::Parse(std::string(json_untrusted.substr(0, beats)) + "\"beats\":[]}");
  if (!parsed.ok()) return NoAnswer();
  const Json& head = parsed.value();
  BeatAnswer answer;
  answer.run = json::PrintableText(head, "run", kRunBytesMax);
  answer.rank = json::Whole(head, "rank");
  if (!json::Member(head, "run").is_string() || answer.rank < 0 || answer.rank > kRankMax) return NoAnswer();
  answer.next = json::Count(head, "next");
  answer.newest = json::Count(head, "newest");
  answer.lost = json::Count(head, "lost");
  answer.dropped = json::Count(head, "dropped");
  std::string_view rest = json_untrusted.substr(beats + kBeats.size());
  while (rest.starts_with('{')) {
    if (answer.lines.size() == kAnswerLinesMax)
      return Status(StatusCode::kExhausted,
                    "the control socket returned more than " + std::to_string(kAnswerLinesMax) + " beats");
    const std::string_view object = ObjectAt(rest);
    if (object.empty()) return NoAnswer();
    rest.remove_prefix(object.size());
    if (rest.starts_with(',')) rest.remove_prefix(1);
    Result<Line> line = ParseLine(object);
    if (!line.ok()) {
      ++answer.refused;
      continue;
    }
    line.value().run = answer.run;
    line.value().rank = answer.rank;
    answer.lines.push_back(std::move(line).value());
  }
  if (!rest.starts_with(']')) return NoAnswer();
  return answer;
}

}  // namespace stepwatch::operations
