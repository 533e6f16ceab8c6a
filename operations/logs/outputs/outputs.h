// All outputs of records of this daemon.
//
// All methods run on the thread of `loop`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/transport.h"
#include "operations/logs/outputs/output.h"
#include "operations/logs/outputs/output_settings.h"
#include "src/http/metric_family.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations::outputs {

struct OutputsOptions {
  std::vector<OutputSettings> settings;
  std::string state_directory;  // with a spool for each output that has one
  std::function<std::unique_ptr<delivery::Transport>()> make_transport = delivery::MakeCurlTransport;
  std::function<void(const std::string& text)> log;
};

enum class Form : uint8_t { kEcs, kOtel };

class Outputs {
 public:
  Outputs(boost::asio::io_context& loop, OutputsOptions options);
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  bool empty() const { return outputs_.empty(); }
  // `id`: of the record, by which a receiver drops a repetition. `make_json` is called once for each form in use.
  void Add(std::string_view id, const std::function<std::string(Form form)>& make_json);
  // About once a second; `running`: seconds of a clock that is never set.
  void Tick(double running);
  // The number of added records, in their order, that a kill of this process no longer loses. A source of records may
  // forget them.
  int64_t safe() const;
  std::vector<http::MetricFamily> Families() const;

 private:
  struct Named {
    std::string name;
    Form form = Form::kEcs;
    std::unique_ptr<Output> output;
  };

  std::unique_ptr<delivery::Transport> transport_;  // null: no output needs it
  std::minstd_rand dice_{std::random_device{}()};
  std::vector<Named> outputs_;  // destroyed before the transport
  int64_t added_ = 0;
};

}  // namespace stepwatch::operations::outputs
