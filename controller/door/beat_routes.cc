#include "controller/door/beat_routes.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "controller/door/json_values.h"
#include "src/base/text.h"
#include "src/vocabulary/pulse_page.h"

namespace stepwatch::door {
namespace {

// Of one answer; who wants more asks again.
constexpr size_t kBeatLinesMax = 2000;

std::optional<uint64_t> SinceOf(std::string_view query_untrusted) {
  constexpr std::string_view kName = "since=";
  if (query_untrusted.empty()) return 0;
  if (!query_untrusted.starts_with(kName)) return std::nullopt;
  const std::string_view digits = query_untrusted.substr(kName.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

}  // namespace

Answer GetBeats(const Request& request, Job& job) {
  const std::optional<uint64_t> since = SinceOf(request.query);
  if (!since)
    return BadRequest("the query may be since=NUMBER, the `next` of an earlier answer; found \"" +
                      base::Printable(request.query) + "\"");
  const BeatPage page = job.BeatsAfter(*since, kBeatLinesMax);
  const Json head = {{"version", kAnswerVersion}, {"run", page.run_id}, {"rank", page.rank},      {"next", page.next},
                     {"newest", page.newest},     {"lost", page.lost},  {"dropped", page.dropped}};
  Answer answer;
  answer.body = Dump(head);
  answer.body.back() = ',';
  answer.body += "\"beats\":[";
  for (const std::string& line : page.lines) answer.body.append(&line == &page.lines.front() ? "" : ",").append(line);
  answer.body += "]}";
  return answer;
}

Answer PulseAnswer(const PulseGrant& grant) {
  Answer answer;
  answer.body = Dump({{"version", kAnswerVersion},
                      {"layout", vocabulary::kPulseLayout},
                      {"page_bytes", grant.page_bytes},
                      {"names_bytes", grant.names_fd < 0 ? Json() : Json(grant.names_bytes)},
                      {"names_generation", grant.names_fd < 0 ? Json() : Json(grant.names_generation)}});
  return answer;
}

}  // namespace stepwatch::door
