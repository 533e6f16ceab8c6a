// The loop thread: one Asio io_context that never ends by an exception and never sees the trainer's signals.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace boost::asio {
class io_context;
}

namespace stepwatch::api {

class LoopThread {
 public:
  // `on_fault` receives, on the loop thread, exceptions that escaped a handler.
  explicit LoopThread(std::function<void(const char*)> on_fault);
  // Stop() must have been called, unless Start() was not.
  ~LoopThread();

  void Start();
  // Lets the handlers that are queued run, then ends the thread. False: one of them hangs; the thread still runs at the
  // deadline. Detach then.
  bool Stop(std::chrono::steady_clock::time_point deadline);
  // Lets a thread go that hangs; when it comes back it runs what is queued, and ends.
  void Detach();

  void Post(std::function<void()> work);
  // Runs `work` on the loop and waits for it, at most until the timeout; false: it has not finished (it still will).
  // From the loop thread itself: runs it at once.
  bool Call(std::function<void()> work, std::chrono::milliseconds timeout);
  bool Call(std::function<void()> work, std::chrono::steady_clock::time_point deadline);

  boost::asio::io_context& context();

 private:
  struct Loop;

  void Run() noexcept;
  void ReportFault(const char* what) noexcept;

  const std::function<void(const char*)> on_fault_;
  const std::unique_ptr<Loop> loop_;
  std::promise<void> ended_;  // the thread runs no handler any more
  std::thread thread_;
};

}  // namespace stepwatch::api
