// The control socket: HTTP/1.1 over a Unix socket, and over TCP where that is wanted, on a thread of its own.
//
// It takes no lock of the trainer's language, and whatever clients do costs nobody but the control socket's thread.
// What it asks of the job and cannot be answered at once runs on a worker. In a forked child there is no control
// socket: its descriptors are closed there, and the socket stays the parent's.
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
  // Called on the control socket's thread with why there is no socket: once, until there is one. It is tried again.
  std::function<void(const std::string& why)> on_trouble = {};
  // Called on the control socket's thread with what else is worth knowing: TCP is open or cannot be, the readers' group
  // is none.
  std::function<void(const std::string& note)> on_note = {};
  std::string readers = {};  // the name or number of the group whose users may read; empty: there is none
  http::TcpOptions tcp = {};
  sockets::CredentialsOf credentials_of = sockets::PeerOf;
  base::FileSystem* files = &base::FileSystem::Real();  // outlives whatever hangs in it
};

class Server {
 public:
  // The job is let go of at the end of the thread.
  Server(ServerOptions options, std::shared_ptr<Job> job);
  // Stops, and leaves a thread behind that has not ended within a second. Does nothing in a forked child.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Starts the thread, which opens the socket a moment later. Throws std::system_error if there is no thread left.
  void Start();
  // Any thread: there are new events for those who read them.
  void Wake() noexcept;
  // Any thread, while the control socket is open: answers what the control socket of another rank has taken and
  // checked, and has handed on. `then` is called once, by any thread, with the text of the answer.
  void AnswerForwarded(int rank, std::string text_untrusted, std::function<void(std::string)> then);
  // Any thread: does what is too slow for the caller's. False, and nothing is done: too much waits, or the control
  // socket is shut.
  bool OnWorker(std::function<void()> work);
  // Removes the socket, lets answers under way leave, and ends the threads. False: one of them hangs, in a file system
  // or in the job, and is left behind with all that it uses.
  bool Stop(std::chrono::steady_clock::time_point deadline);
  // Any thread. Where the socket is; empty: there is none.
  std::string path() const;
  // Any thread. Where it is open on TCP, "127.0.0.1:9464"; empty: nowhere.
  std::string tcp_address() const;

 private:
  class Core;

  base::ForkGuard guard_;
  std::shared_ptr<Core> core_;  // shared with the thread
  std::thread thread_;
};

}  // namespace stepwatch::control_socket
