// The encoding of TensorBoard's event files: events as protobuf messages, each framed as a TFRecord.
//
// A record is the length of its payload (8 bytes), the masked CRC-32C of these bytes, the payload, and the masked
// CRC-32C of the payload; all numbers little-endian. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::sinks {

struct Scalar {
  std::string tag;
  double value = 0;  // stored as a float: rounded, and infinite beyond its range
};

struct Image {
  std::string tag;
  uint32_t width = 0;  // in pixels
  uint32_t height = 0;
  std::string png;  // contents of the file
};

// Scalars and images of one step.
struct SummaryEvent {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::vector<Scalar> scalars;
  std::vector<Image> images{};
};

uint32_t Crc32c(std::string_view bytes);
// The CRC in the form that TFRecords store, so that a CRC over bytes that contain CRCs stays effective.
uint32_t MaskedCrc32c(std::string_view bytes);

// Append one record to `bytes`.
void AppendRecord(std::string_view payload, std::string* bytes);
// The first record of a file: the version of the format.
void AppendVersionRecord(double wall_time, std::string* bytes);
void AppendSummaryRecord(const SummaryEvent& event, std::string* bytes);

}  // namespace stepwatch::sinks
