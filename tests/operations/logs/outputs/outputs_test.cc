// All outputs together: each gets every record in its form, and a record is safe once it is safe in all of them.
#include "operations/logs/outputs/outputs.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations::outputs {
namespace {

using testing::Contents;
using testing::Has;
using testing::TemporaryDirectory;

// Accepts everything, and keeps the bodies.
class AcceptingTransport final : public delivery::Transport {
 public:
  explicit AcceptingTransport(std::vector<std::string>* bodies) : bodies_(*bodies) {}
  void Send(delivery::Outgoing outgoing, std::function<void(delivery::Reply)> then) override {
    bodies_.push_back(outgoing.body);
    delivery::Reply reply;
    reply.status = 204;
    then(std::move(reply));
  }

 private:
  std::vector<std::string>& bodies_;
};

OutputSettings FileAt(const std::string& name, const std::string& path) {
  OutputSettings settings;
  settings.name = name;
  settings.path = path;
  return settings;
}

double ValueOf(const std::vector<http::MetricFamily>& families, std::string_view name, const std::string& output) {
  const auto family =
      std::find_if(families.begin(), families.end(), [&](const http::MetricFamily& each) { return each.name == name; });
  REQUIRE(family != families.end());
  for (const http::MetricSample& sample : family->samples)
    if (sample.labels.front().second == output) return sample.value;
  FAIL("no sample of " << output);
  return 0;
}

TEST_CASE("every output gets each record once, in its form, and a blocked one keeps records unsafe") {
  TemporaryDirectory directory;
  boost::asio::io_context loop;
  std::vector<std::string> bodies, logged;
  OutputsOptions options;
  OutputSettings otlp;
  otlp.name = "loki";
  otlp.type = OutputType::kOtlp;
  otlp.url = "http://loki:3100/otlp";
  options.settings = {FileAt("a", directory / "a"), otlp, FileAt("b", directory / "later/b")};
  options.state_directory = directory.path();
  options.make_transport = [&] { return std::make_unique<AcceptingTransport>(&bodies); };
  options.log = [&](const std::string& text) { logged.push_back(text); };
  Outputs outputs(loop, options);
  double running = 0;
  const auto until = [&](const std::function<bool()>& condition) {
    return testing::Eventually([&] {
      outputs.Tick(running += 1);
      loop.restart();
      loop.run_for(std::chrono::milliseconds(2));
      return condition();
    });
  };
  std::vector<Form> made;
  for (int i = 0; i < 3; ++i)
    outputs.Add("id" + std::to_string(i), [&](Form form) {
      made.push_back(form);
      return std::string(form == Form::kEcs ? R"({"ecs":1})" : R"({"otel":1})");
    });
  CHECK(made == std::vector<Form>{Form::kEcs, Form::kOtel, Form::kEcs, Form::kOtel, Form::kEcs, Form::kOtel});
  REQUIRE(until([&] {
    return ValueOf(outputs.Families(), "stepwatchd_log_output_records", "loki") == 3 &&
           ValueOf(outputs.Families(), "stepwatchd_log_output_records", "a") == 3 && !logged.empty();
  }));
  CHECK(Contents(directory / "a") == "{\"ecs\":1}\n{\"ecs\":1}\n{\"ecs\":1}\n");
  REQUIRE(bodies.size() == 1);
  CHECK(Has(bodies[0], R"([{"otel":1},{"otel":1},{"otel":1}])"));
  CHECK(outputs.safe() == 0);
  CHECK(ValueOf(outputs.Families(), "stepwatchd_log_output_waiting_bytes", "b") > 0);
  CHECK(Has(logged[0], "output \"b\": "));
  std::filesystem::create_directory(directory / "later");
  REQUIRE(until([&] { return outputs.safe() == 3; }));
}

TEST_CASE("without outputs records are safe at once and there are no metrics") {
  boost::asio::io_context loop;
  OutputsOptions options;
  options.make_transport = []() -> std::unique_ptr<delivery::Transport> {
    FAIL("no output needs it");
    return nullptr;
  };
  Outputs outputs(loop, std::move(options));
  CHECK(outputs.empty());
  outputs.Add("id", [](Form) -> std::string { throw std::logic_error("no output needs it"); });
  CHECK(outputs.safe() == 1);
  CHECK(outputs.Families().empty());
}

}  // namespace
}  // namespace stepwatch::operations::outputs
