// Limits of what one HTTP server accepts from its clients.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace stepwatch::http {

struct Limits {
  size_t connections = 64;  // open at one time
  // Maximum number of connections that have not authenticated yet or were rejected; a new one replaces the oldest. The
  // same number again gets the response that the control socket is busy.
  size_t strangers = 8;
  uint32_t header_bytes = 16 << 10;
  uint64_t body_bytes = 1 << 20;                 // the largest config
  uint64_t reader_body_bytes = 1 << 20;          // the same for a user with read access only
  std::chrono::milliseconds idle_time{60000};    // between two requests of a connection
  std::chrono::milliseconds header_time{10000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_time{10000};
  std::chrono::milliseconds answer_time{5000};  // of the job
  std::chrono::milliseconds send_time{10000};   // for the client to read a response, or a page of events
  std::chrono::milliseconds linger_time{5000};  // for the client to read a response that ends the connection
  std::chrono::milliseconds heartbeat{15000};   // of a stream without events
  std::chrono::milliseconds finish_time{200};   // for requests in progress when the control socket closes
  std::chrono::milliseconds tick{1000};         // between two checks that the socket is in its place
};

}  // namespace stepwatch::http
