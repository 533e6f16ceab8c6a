// A request for a route, and the answers that several routes share.
#pragma once

#include <string>

#include "operations/intake/json_answers.h"
#include "operations/intake/routes.h"
#include "operations/intake/service.h"
#include "src/http/answers.h"

namespace stepwatch::operations {

struct RouteCall {
  const IntakeRequest& request;
  const std::vector<std::string> parameters;  // the parts of the path in the places of {…}
  const std::string query;                    // as sent
  Service* const service;
  const http::OnAnswer then;
};

Json IncidentNow(Service* service, const StoredIncident& each);
// Counts the characters of a UTF-8 text.
size_t CharactersIn(const std::string& text);

}  // namespace stepwatch::operations
