#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/worker_thread.h"
#include "stepwatch/stores.h"

namespace stepwatch {

class StoreQueue::Requests {
 public:
  // Returns false, and leaves the request unchanged, if the queue is closed.
  bool Push(Request& request) {
    const base::MutexLock lock(&mutex_);
    if (closed_) return false;
    (request.call == Call::kListen ? listening_ : at_once_).push_back(std::move(request));
    changed_.NotifyAll();
    return true;
  }
  std::optional<Request> Pop(bool listening, std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    const base::MutexLock lock(&mutex_);
    std::deque<Request>& requests = listening ? listening_ : at_once_;
    while (!closed_ && requests.empty() && changed_.WaitUntil(&mutex_, end)) continue;
    if (closed_ || requests.empty()) return std::nullopt;
    Request request = std::move(requests.front());
    requests.pop_front();
    return request;
  }
  std::deque<Request> TakeListening() {
    const base::MutexLock lock(&mutex_);
    return std::exchange(listening_, {});
  }
  // Closes the queue and returns the waiting requests.
  std::deque<Request> Close() {
    const base::MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
    for (Request& request : std::exchange(listening_, {})) at_once_.push_back(std::move(request));
    return std::exchange(at_once_, {});
  }
  bool closed() const {
    const base::MutexLock lock(&mutex_);
    return closed_;
  }

 private:
  mutable base::Mutex mutex_;
  base::Condition changed_;
  std::deque<Request> at_once_ STEPWATCH_GUARDED_BY(mutex_);
  std::deque<Request> listening_ STEPWATCH_GUARDED_BY(mutex_);
  bool closed_ STEPWATCH_GUARDED_BY(mutex_) = false;
};

StoreQueue::StoreQueue() : StoreQueue(Abilities{}) {}
StoreQueue::StoreQueue(Abilities abilities)
    : appends_(abilities.appends), listens_(abilities.listens), requests_(std::make_unique<Requests>()) {}
StoreQueue::~StoreQueue() {
  Close();
}

void StoreQueue::Set(const std::string& key, const std::string& value, Done done) {
  Push({Call::kSet, key, value, {}, std::move(done)});
}
void StoreQueue::Get(const std::string& key, Done done) {
  Push({Call::kGet, key, "", {}, std::move(done)});
}
void StoreQueue::SetOnce(const std::string& key, const std::string& value, Done done) {
  Push({Call::kSetOnce, key, value, {}, std::move(done)});
}
void StoreQueue::SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) {
  Push({Call::kSetAll, "", value, keys, std::move(done)});
}
void StoreQueue::Append(const std::string& key, const std::string& text, Done done) {
  Push({Call::kAppend, key, text, {}, std::move(done)});
}
void StoreQueue::Listen(const std::string& key, Done done) {
  if (!listens_) return Store::Listen(key, std::move(done));
  Push({Call::kListen, key, "", {}, std::move(done)});
}

void StoreQueue::Push(Request request) {
  if (!requests_->Push(request)) request.done(Status(StatusCode::kUnavailable, "the store is closed"));
}

std::optional<StoreQueue::Request> StoreQueue::Next(std::chrono::milliseconds timeout) {
  return requests_->Pop(/*listening=*/false, timeout);
}

std::optional<StoreQueue::Request> StoreQueue::NextListen(std::chrono::milliseconds timeout) {
  return requests_->Pop(/*listening=*/true, timeout);
}

void StoreQueue::StopListening() {
  listens_ = false;
  for (const Request& request : requests_->TakeListening())
    request.done(Status(StatusCode::kUnavailable, "the store does not support listen"));
}

void StoreQueue::Close() {
  for (const Request& request : requests_->Close())
    request.done(Status(StatusCode::kUnavailable, "the store is closed"));
}

bool StoreQueue::closed() const {
  return requests_->closed();
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

// The thread owns the queue, not this object: a call that hangs is abandoned with everything that it uses.
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
