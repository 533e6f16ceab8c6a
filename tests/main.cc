// Runs the test cases. A run that matches none fails: an entry of CTest must not pass because its case was renamed.
//
// The monitors of the run open their control sockets in a separate directory, so that other processes that look for
// jobs do not find them, and the run finds no other jobs.
#include "tests/temporary_directory.h"
#include "tests/variable.h"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#ifdef __SANITIZE_THREAD__
// Tests fork while threads run, and their children start threads; by default ThreadSanitizer ends such a child.
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif

int main(int argc, char** argv) {
  const stepwatch::testing::TemporaryDirectory sockets;
  const stepwatch::testing::Variable variable("STEPWATCH_RUNTIME_DIR", sockets.path());
  Catch::Session session;
#ifdef CATCH_CONFIG_RUNNER
  session.configData().warnings = Catch::WarnAbout::NoTests;
#endif
  return session.run(argc, argv);
}
