#include "controller/api/event_log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace stepwatch::api {
namespace {

spdlog::level::level_enum LevelOf(EventKind kind) {
  switch (SeverityOf(kind)) {
    case EventSeverity::kInfo: break;
    case EventSeverity::kWarning: return spdlog::level::warn;
    case EventSeverity::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

std::function<void(const Event&)> MakeEventLog(int rank, int world_size) {
  // Not registered, as spdlog's registry belongs to the program.
  auto logger = std::make_shared<spdlog::logger>("stepwatch", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  const std::string who = world_size > 1 ? fmt::format("[rank {}] ", rank) : "";
  logger->set_pattern("%Y-%m-%d %H:%M:%S [stepwatch] " + who + "[%l] %v");
  return [logger](const Event& event) { logger->log(LevelOf(event.kind), "{}", EventText(event)); };
}

}  // namespace stepwatch::api
