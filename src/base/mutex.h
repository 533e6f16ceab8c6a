// A mutex with clang's thread-safety annotations: with -Wthread-safety (`./run clang`) a member that is GUARDED_BY a
// mutex is accessed only where that mutex is held. The standard's mutex has no annotations, so the analysis does not
// see it. Other compilers see plain locks.
//
//   Mutex mutex_;
//   int count_ STEPWATCH_GUARDED_BY(mutex_) = 0;
//   void Add() STEPWATCH_REQUIRES(mutex_);   // called with the lock held
//   ...
//   const MutexLock lock(&mutex_);
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define STEPWATCH_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define STEPWATCH_THREAD_ANNOTATION(x)
#endif
#define STEPWATCH_GUARDED_BY(mutex) STEPWATCH_THREAD_ANNOTATION(guarded_by(mutex))
#define STEPWATCH_PT_GUARDED_BY(mutex) STEPWATCH_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define STEPWATCH_REQUIRES(...) STEPWATCH_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define STEPWATCH_EXCLUDES(...) STEPWATCH_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define STEPWATCH_ACQUIRE(...) STEPWATCH_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define STEPWATCH_RELEASE(...) STEPWATCH_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace stepwatch::base {

class STEPWATCH_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() STEPWATCH_ACQUIRE() { mutex_.lock(); }
  void Unlock() STEPWATCH_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds a mutex for its lifetime, except between Unlock and Lock.
class STEPWATCH_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) STEPWATCH_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() STEPWATCH_RELEASE() {
    if (is_held_) mutex_->Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() STEPWATCH_RELEASE() {
    mutex_->Unlock();
    is_held_ = false;
  }
  void Lock() STEPWATCH_ACQUIRE() {
    mutex_->Lock();
    is_held_ = true;
  }

 private:
  Mutex* const mutex_;
  bool is_held_ = true;
};

// Waiting releases the mutex and may end without a notification, so callers check again in a loop.
class Condition {
 public:
  void Wait(Mutex* mutex) STEPWATCH_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // Returns false if the time is up.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point end) STEPWATCH_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(lock, end);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace stepwatch::base
