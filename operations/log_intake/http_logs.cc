#include "operations/log_intake/http_logs.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "operations/log_intake/log_request.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::operations {
namespace {

// The number of google.rpc.Code that clients of OTLP expect.
constexpr int kInvalidArgument = 3;

http::Answer OtlpAnswer(const SentLines& sent) {
  Json json = Json::object();
  if (sent.refused > 0)
    json["partialSuccess"] = {{"rejectedLogRecords", std::to_string(sent.refused)},
                              {"errorMessage", "record " + std::to_string(sent.refusals.front().first) + ": " +
                                                   sent.refusals.front().second}};
  return http::JsonAnswer(json);
}

http::Answer LinesAnswer(const SentLines& sent, size_t taken) {
  Json json = http::VersionedAnswer();
  json["taken"] = taken;
  json["refused"] = sent.refused;
  Json& refusals = json["refusals"] = Json::array();
  for (const auto& [line, why] : sent.refusals) refusals.push_back({{"line", line}, {"message", why}});
  return http::JsonAnswer(json);
}

http::Answer InvalidAnswer(const std::string& why) {
  Json json = http::ErrorJson("bad_request", why);
  json["code"] = kInvalidArgument;
  json["message"] = why;
  return http::JsonAnswer(json, 400);
}

// A request on its way.
struct Reading {
  LogPosts::Post post;
  http::Answer answer;
  int64_t refused = 0;
  bool is_one_line = false;
  bool is_answered = false;
};

std::vector<SentLine> ReadLines(Reading* reading) {
  const std::string body = std::move(reading->post.body_untrusted);
  Result<SentLines> sent = ReadLogRequest(body, {reading->post.run, reading->post.rank});
  if (!sent.ok()) {
    const Status& status = sent.status();
    reading->answer =
        status.code() == StatusCode::kExhausted ? http::TooLarge(status.message()) : InvalidAnswer(status.message());
    reading->refused = 1;
    return {};
  }
  std::vector<SentLine> lines = std::move(sent.value().lines);
  reading->refused = sent.value().refused;
  reading->is_one_line = lines.size() <= 1;
  reading->answer = sent.value().is_otlp ? OtlpAnswer(sent.value()) : LinesAnswer(sent.value(), lines.size());
  return lines;
}

}  // namespace

bool HttpLogs::Take(Post post, http::OnAnswer then) {
  const size_t bytes = post.body_untrusted.size();
  const auto reading =
      std::make_shared<Reading>(Reading{std::move(post), http::Failed("the lines could not be read"), 0});
  SentLineReader::Work work;
  work.bytes = bytes;
  work.lines = [reading] { return ReadLines(reading.get()); };
  const auto answer = [reading, then = std::move(then), refused = refused_] {
    if (std::exchange(reading->is_answered, true)) return;
    *refused += reading->refused;
    then(reading->answer);
  };
  // Logstash sends one line at a time, and would wait for the outputs with each.
  work.on_read = [reading, answer] {
    if (reading->is_one_line) answer();
  };
  work.then = answer;
  return reader_.Take(std::move(work));
}

}  // namespace stepwatch::operations
