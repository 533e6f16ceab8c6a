// The compiled patterns of records, made when the first source needs them: they cost memory, and time of its thread.
#pragma once

#include <memory>

#include "src/base/mutex.h"
#include "src/logs/recogniser.h"

namespace stepwatch::operations {

// Thread-safe.
class LazyRecogniser {
 public:
  // The first call takes some 0.1 s: make it on a thread of a source, not on the loop's. Lives as long as this does.
  const logs::Recogniser& Get() {
    const base::MutexLock lock(&mutex_);
    if (!made_) made_ = std::make_unique<const logs::Recogniser>();
    return *made_;
  }

 private:
  base::Mutex mutex_;
  std::unique_ptr<const logs::Recogniser> made_ STEPWATCH_GUARDED_BY(mutex_);
};

}  // namespace stepwatch::operations
