#include "operations/intake/route_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace stepwatch::operations {

void Reply(const RouteCall& call, Json members) {
  http::Answer answer;
  answer.body = AnswerText(std::move(members));
  call.then(std::move(answer));
}

http::Answer Missing(const std::string& what) {
  http::Answer answer = http::NoSuchPath("");
  answer.body = AnswerText({{"error", {{"code", "not_found"}, {"message", what}}}});
  return answer;
}

Json IncidentNow(Service* service, const StoredIncident& each) {
  return IncidentAnswer(each.incident, each.acknowledgement,
                        service->incidents().SilenceOf(each.incident, service->t()));
}

size_t CharactersIn(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace stepwatch::operations
