// The loop thread: one Asio io_context. No exception ends it, and the trainer's signals are blocked in it.
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
  // Stop() must have been called if Start() was.
  ~LoopThread();

  void Start();
  // Runs the queued handlers, then ends the thread. False: a handler hangs, so the thread still runs at the deadline;
  // call Detach then.
  bool Stop(std::chrono::steady_clock::time_point deadline);
  // Abandons a thread that hangs; if it continues, it runs the queued handlers and ends.
  void Detach();

  void Post(std::function<void()> work);
  // Runs `work` on the loop and waits for it until the timeout; false: it has not finished, and will finish later. On
  // the loop thread itself, runs it at once.
  bool Call(std::function<void()> work, std::chrono::milliseconds timeout);
  bool Call(std::function<void()> work, std::chrono::steady_clock::time_point deadline);

  boost::asio::io_context& context();

 private:
  struct Loop;

  void Run() noexcept;
  void ReportFault(const char* what) noexcept;

  const std::function<void(const char*)> on_fault_;
  const std::unique_ptr<Loop> loop_;
  std::promise<void> ended_;  // set when the thread runs no more handlers
  std::thread thread_;
};

}  // namespace stepwatch::api
