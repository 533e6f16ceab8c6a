#include "operations/intake/route_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace stepwatch::operations {

Json IncidentNow(Service* service, const StoredIncident& each) {
  return IncidentAnswer(each.incident, each.acknowledgement,
                        service->incidents().SilenceOf(each.incident, service->t()));
}

size_t CharactersIn(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace stepwatch::operations
