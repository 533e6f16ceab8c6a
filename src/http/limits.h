// What one server accepts from its clients.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace stepwatch::http {

struct Limits {
  size_t connections = 64;  // at one time
  // At one time before they have shown who they are, or after they were refused: the oldest goes for the next one. As
  // many more hear that the control socket is busy.
  size_t strangers = 8;
  uint32_t header_bytes = 16 << 10;
  uint64_t body_bytes = 1 << 20;                 // the largest config
  uint64_t reader_body_bytes = 1 << 20;          // of a user who may only read, likewise
  std::chrono::milliseconds idle_time{60000};    // between two requests of a connection
  std::chrono::milliseconds header_time{10000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_time{10000};
  std::chrono::milliseconds answer_time{5000};  // of the job
  std::chrono::milliseconds send_time{10000};   // for the other end to take an answer, or a page of events
  std::chrono::milliseconds linger_time{5000};  // for the other end to read an answer that ends the connection
  std::chrono::milliseconds heartbeat{15000};   // of a stream without events
  std::chrono::milliseconds finish_time{200};   // for what is under way when the control socket closes
  std::chrono::milliseconds tick{1000};         // between two looks whether the socket is in its place
};

}  // namespace stepwatch::http
