// The store of a rank of an older release, in which ranks do not agree on samplings: it cannot read their messages.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "stepwatch/store.h"

namespace stepwatch::testing {

class OldRelease final : public Store {
 public:
  explicit OldRelease(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  void Set(const std::string& key, const std::string& value, Done done) override { store_->Set(key, value, done); }
  void SetOnce(const std::string& key, const std::string& value, Done done) override {
    store_->SetOnce(key, value, done);
  }
  void Get(const std::string& key, Done done) override {
    store_->Get(key, [key, done](Answer answer) {
      if (answer.ok() && answer.value()) {
        if (key.find("/p/") != std::string::npos) Hide("t-sampling ", &*answer.value());
        if (key.compare(key.size() - 2, 2, "/q") == 0) Hide("\nbudget ", &*answer.value());
      }
      done(std::move(answer));
    });
  }

 private:
  static void Hide(const std::string& word, std::string* text) {
    const size_t at = text->find(word);
    if (at != std::string::npos) text->replace(at + 1, 1, "?");
  }

  const std::shared_ptr<Store> store_;
};

}  // namespace stepwatch::testing
