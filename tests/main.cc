// Runs the test cases. A run that matches none fails: an entry of CTest must not pass because its case was renamed.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int main(int argc, char** argv) {
  Catch::Session session;
  session.configData().warnings = Catch::WarnAbout::NoTests;
  return session.run(argc, argv);
}
#endif
