// Carries one request to a receiver and returns its reply.
#pragma once

#include <functional>
#include <memory>

#include "operations/delivery/receiver.h"

namespace stepwatch::operations::delivery {

class Transport {
 public:
  virtual ~Transport() = default;
  // Never blocks. Calls `then` once, on a thread of the transport, even if the transport is destroyed before a reply.
  virtual void Send(Outgoing outgoing, std::function<void(Reply)> then) = 0;
};

// Over HTTP, HTTPS and SMTP, by libcurl on one thread. Certificates are verified, redirects are not followed, proxies
// are those of the environment. The destructor ends each exchange with an error, and the thread, within a second.
std::unique_ptr<Transport> MakeCurlTransport();

}  // namespace stepwatch::operations::delivery
