#include <exception>
#include <thread>
#include <utility>

#include "src/base/worker_thread.h"
#include "stepwatch/stores.h"

namespace stepwatch {

void StoreQueue::Set(const std::string& key, const std::string& value, Done done) {
  Push(&requests_, {Call::kSet, key, value, {}, std::move(done)});
}
void StoreQueue::Get(const std::string& key, Done done) {
  Push(&requests_, {Call::kGet, key, "", {}, std::move(done)});
}
void StoreQueue::SetOnce(const std::string& key, const std::string& value, Done done) {
  Push(&requests_, {Call::kSetOnce, key, value, {}, std::move(done)});
}
void StoreQueue::SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) {
  Push(&requests_, {Call::kSetAll, "", value, keys, std::move(done)});
}
void StoreQueue::Append(const std::string& key, const std::string& text, Done done) {
  Push(&requests_, {Call::kAppend, key, text, {}, std::move(done)});
}
void StoreQueue::Listen(const std::string& key, Done done) {
  if (!listens_) return Store::Listen(key, std::move(done));
  Push(&listeners_, {Call::kListen, key, "", {}, std::move(done)});
}

void StoreQueue::Push(Requests* requests, Request request) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      requests->push_back(std::move(request));
      wake_.notify_all();
      return;
    }
  }
  request.done(Status(StatusCode::kUnavailable, "the store is closed"));
}

std::optional<StoreQueue::Request> StoreQueue::Next(std::chrono::milliseconds timeout) {
  return Pop(&requests_, timeout);
}

std::optional<StoreQueue::Request> StoreQueue::NextListen(std::chrono::milliseconds timeout) {
  return Pop(&listeners_, timeout);
}

std::optional<StoreQueue::Request> StoreQueue::Pop(Requests* requests, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, timeout, [&] { return closed_ || !requests->empty(); });
  if (closed_ || requests->empty()) return std::nullopt;
  Request request = std::move(requests->front());
  requests->pop_front();
  return request;
}

void StoreQueue::StopListening() {
  listens_ = false;
  Requests left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    left.swap(listeners_);
  }
  for (const Request& request : left) request.done(Status(StatusCode::kUnavailable, "the store does not listen"));
}

void StoreQueue::Close() {
  Requests left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    left.swap(requests_);
    for (Request& request : listeners_) left.push_back(std::move(request));
    listeners_.clear();
    wake_.notify_all();
  }
  for (const Request& request : left) request.done(Status(StatusCode::kUnavailable, "the store is closed"));
}

bool StoreQueue::closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

namespace {

Status Write(BlockingStore& store, const StoreQueue::Request& request) {
  if (request.call == StoreQueue::Call::kAppend) return store.Append(request.key, request.value);
  if (request.call == StoreQueue::Call::kSet) return store.Set(request.key, request.value);
  for (const std::string& key : request.keys) {
    Status set = store.Set(key, request.value);
    if (!set.ok()) return set;
  }
  return Status();
}

Store::Answer Perform(BlockingStore& store, const StoreQueue::Request& request) {
  try {
    if (request.call == StoreQueue::Call::kGet) return store.Get(request.key);
    if (request.call == StoreQueue::Call::kSetOnce) return store.SetOnce(request.key, request.value);
    Status written = Write(store, request);
    if (!written.ok()) return written;
    return std::optional<std::string>();
  } catch (const std::exception& error) {
    return Status(StatusCode::kUnavailable, error.what());
  }
}

// The thread holds the queue, not this object: a call that hangs is left behind with all that it uses.
class StoreOnThread final : public Store {
 public:
  explicit StoreOnThread(std::shared_ptr<BlockingStore> store)
      : queue_(std::make_shared<StoreQueue>(Abilities{store->appends(), false})) {
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
  Abilities abilities() const override { return queue_->abilities(); }
  void SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) override {
    queue_->SetAll(keys, value, std::move(done));
  }
  void Append(const std::string& key, const std::string& text, Done done) override {
    queue_->Append(key, text, std::move(done));
  }

 private:
  const std::shared_ptr<StoreQueue> queue_;
};

}  // namespace

std::shared_ptr<Store> RunOnOwnThread(std::shared_ptr<BlockingStore> store) {
  return std::make_shared<StoreOnThread>(std::move(store));
}

}  // namespace stepwatch
