// A request for a route, and the answers that several routes share.
#pragma once

#include <string>

#include "operations/intake/json_answers.h"
#include "operations/intake/routes.h"
#include "operations/intake/service.h"
#include "operations/intake/target.h"
#include "src/http/answers.h"

namespace stepwatch::operations {

struct RouteCall {
  const IntakeRequest& request;
  const Target target;
  Service* const service;
  const OnIntakeAnswer then;

  const std::string& part(size_t i) const { return target.parts[i]; }
  std::string query(const std::string& name) const {
    const auto found = target.query.find(name);
    return found == target.query.end() ? "" : found->second;
  }
};

// An answer with these members.
void Reply(const RouteCall& call, Json members);
// 404: unknown name.
http::Answer Missing(const std::string& what);
Json IncidentNow(Service* service, const StoredIncident& each);
// Counts the characters of a UTF-8 text.
size_t CharactersIn(const std::string& text);

}  // namespace stepwatch::operations
