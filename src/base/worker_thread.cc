#include "src/base/worker_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace stepwatch::base {
namespace {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    // A signal that the thread itself causes ends the process at once where it is blocked, bypassing any handler.
    for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread StartWorkerThread(const char* name, std::function<void()> body) {
  const SignalsBlocked blocked;  // a new thread inherits the mask
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace stepwatch::base
