#include "controller/control_socket/beat_routes.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/text.h"
#include "src/json/json.h"
#include "src/vocabulary/pulse_page.h"

namespace stepwatch::control_socket {
namespace {

// Maximum count of lines in one answer; a client requests more with `since`.
constexpr size_t kBeatLinesMax = 2000;

}  // namespace

http::Answer GetBeats(const Request& request, Job& job) {
  const std::optional<uint64_t> since = http::NumberInQuery(request.query, "since", 0);
  if (!since)
    return http::BadRequest("the query may be since=NUMBER, the `next` of an earlier answer; found \"" +
                            base::Printable(request.query) + "\"");
  const BeatPage page = job.BeatsAfter(*since, kBeatLinesMax);
  const Json head = {
      {"version", http::kAnswerVersion}, {"run", page.run_id}, {"rank", page.rank},      {"next", page.next},
      {"newest", page.newest},           {"lost", page.lost},  {"dropped", page.dropped}};
  http::Answer answer = http::JsonAnswer(head);
  answer.body.back() = ',';
  answer.body += "\"beats\":[";
  for (const std::string& line : page.lines) answer.body.append(&line == &page.lines.front() ? "" : ",").append(line);
  answer.body += "]}";
  return answer;
}

http::Answer PulseAnswer(const PulseGrant& grant) {
  return http::JsonAnswer({{"version", http::kAnswerVersion},
                           {"layout", vocabulary::kPulseLayout},
                           {"page_bytes", grant.page_bytes},
                           {"names_bytes", grant.names_fd < 0 ? Json() : Json(grant.names_bytes)},
                           {"names_generation", grant.names_fd < 0 ? Json() : Json(grant.names_generation)}});
}

}  // namespace stepwatch::control_socket
