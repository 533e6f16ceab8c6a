// Requests to a collector: when they are sent, and the effect of a failure.

#include "operations/daemon/otlp_sender.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("a collector that is away is reported once, and tried again after pauses") {
  boost::asio::io_context loop;
  std::vector<std::string> troubles;
  OtlpOptions options;
  options.address = {"127.0.0.1", "1"};
  options.on_trouble = [&](const std::string& why) { troubles.push_back(why); };
  OtlpSender sender(loop, options);
  int bodies = 0;
  const auto tick_until_failed = [&](double running, int64_t failed) {
    return testing::Eventually([&] {
      sender.Tick(running, [&] {
        ++bodies;
        return std::string("{}");
      });
      loop.restart();
      loop.run_for(std::chrono::milliseconds(5));
      return sender.failed() == failed;
    });
  };
  CHECK(tick_until_failed(100, 1));
  CHECK(bodies == 1);
  sender.Tick(100.4, [&] { return std::to_string(++bodies); });
  CHECK(bodies == 1);
  CHECK(tick_until_failed(102, 2));
  CHECK(tick_until_failed(200, 3));
  CHECK(bodies == 3);
  CHECK(troubles.size() == 1);
  CHECK(sender.sent() == 0);
}

TEST_CASE("metrics that are too many are not sent") {
  boost::asio::io_context loop;
  std::vector<std::string> troubles;
  OtlpOptions options;
  options.address = {"127.0.0.1", "1"};
  options.on_trouble = [&](const std::string& why) { troubles.push_back(why); };
  OtlpSender sender(loop, options);
  sender.Tick(1, [] { return std::string(OtlpSender::kBodyBytesMax + 1, ' '); });
  CHECK(sender.failed() == 1);
  REQUIRE(troubles.size() == 1);
  CHECK(testing::Has(troubles[0], "16 MiB"));
}

}  // namespace
}  // namespace stepwatch::operations
