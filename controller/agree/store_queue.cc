#include <thread>
#include <utility>

#include "src/base/worker_thread.h"
#include "stepwatch/store.h"

namespace stepwatch {

void StoreQueue::Set(const std::string& key, const std::string& value, Done done) {
  Push({Call::kSet, key, value, std::move(done)});
}
void StoreQueue::Get(const std::string& key, Done done) {
  Push({Call::kGet, key, "", std::move(done)});
}
void StoreQueue::SetOnce(const std::string& key, const std::string& value, Done done) {
  Push({Call::kSetOnce, key, value, std::move(done)});
}

void StoreQueue::Push(Request request) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      requests_.push_back(std::move(request));
      wake_.notify_one();
      return;
    }
  }
  request.done(Status(StatusCode::kUnavailable, "the store is closed"));
}

std::optional<StoreQueue::Request> StoreQueue::Next(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, timeout, [this] { return closed_ || !requests_.empty(); });
  if (closed_ || requests_.empty()) return std::nullopt;
  Request request = std::move(requests_.front());
  requests_.pop_front();
  return request;
}

void StoreQueue::Close() {
  std::deque<Request> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    left.swap(requests_);
    wake_.notify_all();
  }
  for (const Request& request : left) request.done(Status(StatusCode::kUnavailable, "the store is closed"));
}

bool StoreQueue::closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

namespace {

Store::Answer Perform(BlockingStore& store, const StoreQueue::Request& request) {
  try {
    switch (request.call) {
      case StoreQueue::Call::kGet: return store.Get(request.key);
      case StoreQueue::Call::kSetOnce: return store.SetOnce(request.key, request.value);
      case StoreQueue::Call::kSet: break;
    }
    Status set = store.Set(request.key, request.value);
    if (!set.ok()) return set;
    return std::optional<std::string>();
  } catch (const std::exception& error) {
    return Status(StatusCode::kUnavailable, error.what());
  }
}

// The thread holds the queue, not this object: a call that hangs is left behind with all that it uses.
class StoreOnThread final : public Store {
 public:
  explicit StoreOnThread(std::shared_ptr<BlockingStore> store) {
    base::StartWorkerThread("stepwatch-store", [queue = queue_, store = std::move(store)] {
      while (!queue->closed())
        if (const auto request = queue->Next(std::chrono::seconds(1))) request->done(Perform(*store, *request));
    }).detach();
  }
  ~StoreOnThread() override { queue_->Close(); }

  void Set(const std::string& key, const std::string& value, Done done) override {
    queue_->Set(key, value, std::move(done));
  }
  void Get(const std::string& key, Done done) override { queue_->Get(key, std::move(done)); }
  void SetOnce(const std::string& key, const std::string& value, Done done) override {
    queue_->SetOnce(key, value, std::move(done));
  }

 private:
  const std::shared_ptr<StoreQueue> queue_ = std::make_shared<StoreQueue>();
};

}  // namespace

std::shared_ptr<Store> RunOnOwnThread(std::shared_ptr<BlockingStore> store) {
  return std::make_shared<StoreOnThread>(std::move(store));
}

}  // namespace stepwatch
