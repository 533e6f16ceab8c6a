// `stepwatchd test-alert RECEIVER`: sends one message, which is marked as a test.
#pragma once

#include <string>

namespace stepwatch::operations {

struct TestAlertArguments {
  std::string receiver;
  std::string config;
};

// Prints whether the receiver has accepted the message. Returns 0 if it has, 1 if not, 2 for settings that cannot be
// used or have no such receiver.
int RunTestAlert(const TestAlertArguments& arguments);

}  // namespace stepwatch::operations
