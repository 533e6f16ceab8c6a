#include "controller/api/loop_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "src/base/check.h"
#include "src/base/worker_thread.h"

namespace stepwatch::api {

struct LoopThread::Loop {
  boost::asio::io_context context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work = boost::asio::make_work_guard(context);
};

LoopThread::LoopThread(std::function<void(const char*)> on_fault)
    : on_fault_(std::move(on_fault)), loop_(std::make_unique<Loop>()) {}

LoopThread::~LoopThread() {
  STEPWATCH_CHECK(!thread_.joinable());
}

void LoopThread::Start() {
  thread_ = base::StartWorkerThread("stepwatch-loop", [this] {
    Run();
    ended_.set_value();
  });
}

void LoopThread::Run() noexcept {
  for (;;) {
    try {
      loop_->context.run();
      return;
    } catch (const std::exception& error) {
      ReportFault(error.what());
    } catch (...) {
      ReportFault("unknown exception");
    }
  }
}

void LoopThread::ReportFault(const char* what) noexcept {
  try {
    on_fault_(what);
  } catch (...) {  // no memory to report the lack of memory: the loop continues
  }
}

bool LoopThread::Stop(std::chrono::steady_clock::time_point deadline) {
  loop_->work.reset();
  if (!thread_.joinable()) return true;
  if (ended_.get_future().wait_until(deadline) != std::future_status::ready) return false;
  thread_.join();
  return true;
}

void LoopThread::Detach() {
  loop_->work.reset();
  if (thread_.joinable()) thread_.detach();
}

boost::asio::io_context& LoopThread::context() {
  return loop_->context;
}

void LoopThread::Post(std::function<void()> work) {
  boost::asio::post(loop_->context, std::move(work));
}

bool LoopThread::Call(std::function<void()> work, std::chrono::milliseconds timeout) {
  return Call(std::move(work), std::chrono::steady_clock::now() + timeout);
}

bool LoopThread::Call(std::function<void()> work, std::chrono::steady_clock::time_point deadline) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    work();
    return true;
  }
  // Shared with the handler, which may run after this call has timed out.
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> finished = done->get_future();
  Post([done, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      done->set_value();
      throw;
    }
    done->set_value();
  });
  return finished.wait_until(deadline) == std::future_status::ready;
}

}  // namespace stepwatch::api
