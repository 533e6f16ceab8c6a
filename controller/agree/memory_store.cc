#include <map>

#include "src/base/mutex.h"
#include "stepwatch/stores.h"

namespace stepwatch {
namespace {

// Calls back within the call: a map needs no other thread.
class MemoryStore final : public Store {
 public:
  void Set(const std::string& key, const std::string& value, Done done) override {
    {
      const base::MutexLock lock(&mutex_);
      values_[key] = value;
    }
    done(std::optional<std::string>(value));
  }
  void Get(const std::string& key, Done done) override { done(Find(key)); }
  void SetOnce(const std::string& key, const std::string& value, Done done) override {
    std::optional<std::string> standing;
    {
      const base::MutexLock lock(&mutex_);
      standing = values_.emplace(key, value).first->second;
    }
    done(std::move(standing));
  }

 private:
  std::optional<std::string> Find(const std::string& key) const {
    const base::MutexLock lock(&mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional<std::string>(found->second);
  }

  mutable base::Mutex mutex_;
  std::map<std::string, std::string> values_ STEPWATCH_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Store> MakeMemoryStore() {
  return std::make_shared<MemoryStore>();
}

}  // namespace stepwatch
