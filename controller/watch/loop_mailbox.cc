#include "controller/watch/loop_mailbox.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace stepwatch::watch {

void LoopMailbox::Post(std::function<void()> work) {
  const base::MutexLock lock(&mutex_);
  if (loop_ != nullptr) boost::asio::post(*loop_, std::move(work));
}

void LoopMailbox::Close() {
  const base::MutexLock lock(&mutex_);
  loop_ = nullptr;
}

}  // namespace stepwatch::watch
