#include "src/sinks/event_record.h"

#include <boost/crc.hpp>
#include <cmath>
#include <limits>

#include "src/sinks/event.pb.h"

namespace stepwatch::sinks {
namespace {

constexpr int32_t kRedGreenBlue = 3;  // colorspace of TensorBoard's images

template <class Number>
void AppendLittleEndian(Number number, std::string* bytes) {
  for (size_t i = 0; i < sizeof number; ++i) bytes->push_back(static_cast<char>((number >> (8 * i)) & 0xff));
}

float Narrow(double value) {
  // Beyond the range of float, the language leaves the conversion undefined.
  if (std::abs(value) > std::numeric_limits<float>::max() && std::isfinite(value))
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(std::signbit(value) ? -1 : 1));
  return static_cast<float>(value);
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  // Castagnoli's polynomial.
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

void AppendRecord(std::string_view payload, std::string* bytes) {
  std::string length;
  AppendLittleEndian(static_cast<uint64_t>(payload.size()), &length);
  bytes->append(length);
  AppendLittleEndian(MaskedCrc32c(length), bytes);
  bytes->append(payload);
  AppendLittleEndian(MaskedCrc32c(payload), bytes);
}

void AppendVersionRecord(double wall_time, std::string* bytes) {
  wire::Event event;
  event.set_wall_time(wall_time);
  event.set_file_version("brain.Event:2");
  AppendRecord(event.SerializeAsString(), bytes);
}

void AppendSummaryRecord(const SummaryEvent& event, std::string* bytes) {
  wire::Event message;
  message.set_wall_time(event.wall_time);
  message.set_step(event.step);
  wire::Summary* summary = message.mutable_summary();
  for (const Scalar& scalar : event.scalars) {
    wire::Summary::Value* value = summary->add_value();
    value->set_tag(scalar.tag);
    value->set_simple_value(Narrow(scalar.value));
  }
  for (const Image& image : event.images) {
    wire::Summary::Value* value = summary->add_value();
    value->set_tag(image.tag);
    value->mutable_image()->set_width(static_cast<int32_t>(image.width));
    value->mutable_image()->set_height(static_cast<int32_t>(image.height));
    value->mutable_image()->set_colorspace(kRedGreenBlue);
    value->mutable_image()->set_encoded_image_string(image.png);
  }
  AppendRecord(message.SerializeAsString(), bytes);
}

}  // namespace stepwatch::sinks
