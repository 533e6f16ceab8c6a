#include "stepwatch/store.h"

#include <atomic>
#include <utility>

namespace stepwatch {

// Sets the keys one by one. Answers with the result of the last one, or with a fault of any.
void Store::SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) {
  struct Tally {
    std::atomic<size_t> left;
    std::atomic<bool> has_failed{false};
  };
  if (keys.empty()) return done(std::optional<std::string>());
  const auto tally = std::make_shared<Tally>();
  tally->left = keys.size();
  const auto answered = [tally, done = std::move(done)](const Answer& answer) {
    const bool is_ok = answer.ok();
    if (!is_ok) tally->has_failed = true;
    if (--tally->left > 0) return;
    if (is_ok && tally->has_failed) return done(Status(StatusCode::kUnavailable, "some keys could not be set"));
    done(answer);
  };
  for (const std::string& key : keys) Set(key, value, answered);
}

void Store::Append(const std::string&, const std::string&, Done done) {
  done(Status(StatusCode::kUnavailable, "this store does not support append"));
}

void Store::Listen(const std::string&, Done done) {
  done(Status(StatusCode::kUnavailable, "this store does not support listen"));
}

Status BlockingStore::Append(const std::string&, const std::string&) {
  return Status(StatusCode::kUnavailable, "this store does not support append");
}

}  // namespace stepwatch
