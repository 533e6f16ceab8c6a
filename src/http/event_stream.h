// The text of server-sent events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepwatch::http {

// `data` has one line. Without `id` the reader's Last-Event-ID stays unchanged.
inline std::string EventText(std::optional<int64_t> id, std::string_view name, std::string_view data) {
  std::string text = id ? "id: " + std::to_string(*id) + "\n" : "";
  return text.append("event: ").append(name).append("\ndata: ").append(data).append("\n\n");
}

}  // namespace stepwatch::http
