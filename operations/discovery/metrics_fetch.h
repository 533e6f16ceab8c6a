// Fetches pages of metrics, or the status, of many control sockets at the same time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "operations/metrics/merge_expositions.h"
#include "src/base/byte_room.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct MetricsQuestion {
  control_socket::FoundSocket server;
  std::vector<ExpositionLabel> labels;  // of the job
};

// Calls `done` once, from the loop and never from here, with the answers to GET `path` of those that have answered in
// time; it counts the others, and those for which there is no room. Called after `time` at the latest.
void FetchPages(boost::asio::io_context& loop, const std::vector<MetricsQuestion>& questions, const std::string& path,
                std::chrono::milliseconds time, const base::ByteRoom& room,
                std::function<void(const JobPages& pages)> done);

}  // namespace stepwatch::operations
