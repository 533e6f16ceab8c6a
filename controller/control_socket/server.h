// The control socket: HTTP/1.1 over a Unix socket and optionally TCP, on a thread of its own.
// It never takes the lock of the trainer's language, and a slow or hostile client delays only the control socket's
// thread. Requests that the job cannot answer at once run on a worker. A forked child has no control socket: its
// descriptors are closed there, and the socket stays with the parent.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "controller/control_socket/job.h"
#include "src/base/file_system.h"
#include "src/base/fork_guard.h"
#include "src/http/limits.h"
#include "src/http/tcp_options.h"
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {

struct ServerOptions {
  std::vector<std::string> directories;  // see RuntimeDirectories
  http::Limits limits = {};
  // Called on the control socket's thread with the reason why there is no socket, once until one opens. Opening is
  // retried.
  std::function<void(const std::string& why)> on_trouble = {};
  // Called on the control socket's thread with other notes: TCP is open or cannot be, the readers' group is unusable.
  std::function<void(const std::string& note)> on_note = {};
  std::string readers = {};  // name or number of the group whose users may read; empty: no group
  http::TcpOptions tcp = {};
  sockets::CredentialsOf credentials_of = sockets::PeerOf;
  base::FileSystem* files = &base::FileSystem::Real();  // must outlive threads that hang in it
};

class Server {
 public:
  // The thread releases the job when it ends.
  Server(ServerOptions options, std::shared_ptr<Job> job);
  // Stops; a thread that has not ended within a second is detached. No effect in a forked child.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Starts the thread, which then opens the socket. Throws std::system_error if no thread can be created.
  void Start();
  // Any thread. Sends new events to their readers.
  void Wake() noexcept;
  // Any thread, while the control socket is open. Answers a request that the control socket of another rank has
  // accepted, checked and forwarded. `then` is called once, on any thread, with the text of the answer.
  void AnswerForwarded(int rank, std::string text_untrusted, std::function<void(std::string)> then);
  // Any thread. Runs slow work on the worker. Returns false without running it if too much work waits or the control
  // socket is closed.
  bool OnWorker(std::function<void()> work);
  // Removes the socket, completes answers in progress, and ends the threads. False: a thread hangs in a file system or
  // in the job; it is detached with everything that it uses.
  bool Stop(std::chrono::steady_clock::time_point deadline);
  // Any thread. Path of the socket; empty: no socket.
  std::string path() const;
  // Any thread. TCP address, such as "127.0.0.1:9464"; empty: TCP is closed.
  std::string tcp_address() const;

 private:
  class Core;

  base::ForkGuard guard_;
  std::shared_ptr<Core> core_;  // shared with the thread
  std::thread thread_;
};

}  // namespace stepwatch::control_socket
