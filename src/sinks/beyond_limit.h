// Thrown by the run's own sinks when Limits::bytes_max leaves no room for the rest of a frame: the frame is dropped,
// and the sink does not count as failing.
#pragma once

#include <cstddef>
#include <exception>

namespace stepwatch::sinks {

class BeyondLimit final : public std::exception {
 public:
  explicit BeyondLimit(size_t written) : written_(written) {}
  // As WriteResult::written.
  size_t written() const { return written_; }
  const char* what() const noexcept override { return "the disk space limit of this run is reached"; }

 private:
  size_t written_;
};

}  // namespace stepwatch::sinks
