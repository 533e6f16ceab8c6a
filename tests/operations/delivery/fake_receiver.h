// A server on a local port whose behaviour a test decides, with or without TLS.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/mutex.h"

namespace stepwatch::testing {

// A certificate for one name and its key. Signed by itself.
struct FakeCertificate {
  std::string certificate_pem, key_pem;
};
// Valid from `from_s` to `to_s`, in seconds from now.
FakeCertificate MakeCertificate(const std::string& name, long from_s, long to_s);

class FakeReceiver {
 public:
  // One connection, after its handshake.
  class Peer {
   public:
    Peer(int fd, SSL* ssl, const std::atomic<bool>& is_ending) : fd_(fd), ssl_(ssl), is_ending_(is_ending) {}
    // Reads until the text ends so; all that was read since the last call, or what there was at the end.
    std::string ReadUntil(const std::string& end);
    // The whole request of a client that sends Content-Length.
    std::string ReadRequest();
    // False: the client is gone.
    bool Write(const std::string& bytes);
    // Returns once the client or the test ends.
    void WaitForEnd();
    // Closes with a reset.
    void Reset();
    bool is_ending() const { return is_ending_; }

   private:
    long ReadSome(char* bytes, size_t count);

    const int fd_;
    SSL* const ssl_;
    const std::atomic<bool>& is_ending_;
    std::string read_;
  };
  using Behaviour = std::function<void(Peer*)>;

  explicit FakeReceiver(Behaviour behaviour, const FakeCertificate* certificate = nullptr);
  ~FakeReceiver();
  FakeReceiver(const FakeReceiver&) = delete;
  FakeReceiver& operator=(const FakeReceiver&) = delete;

  // "127.0.0.1:PORT".
  const std::string& host() const { return host_; }
  int connections() const { return connections_; }

 private:
  void Listen();
  void Serve(int fd);

  const Behaviour behaviour_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> tls_{nullptr, &::SSL_CTX_free};
  std::string host_;
  int listener_ = -1;
  std::atomic<bool> is_ending_ = false;
  std::atomic<int> connections_ = 0;
  base::Mutex mutex_;
  std::vector<int> open_ STEPWATCH_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // of the listening thread, until it ends
  std::thread thread_;
};

// Answers each request so, and closes the connection.
FakeReceiver::Behaviour Answering(const std::string& status, const std::string& body = "",
                                  const std::string& headers = "");

}  // namespace stepwatch::testing
