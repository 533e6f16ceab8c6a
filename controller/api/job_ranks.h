// A monitor as one rank of its job: its answers to other ranks, and its control socket's questions to them.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "controller/ask/questions.h"
#include "controller/control_socket/job.h"
#include "stepwatch/monitor.h"
#include "stepwatch/status.h"

namespace stepwatch::api {

class JobRanks final : public ask::QuestionHost {
 public:
  // `impl` must outlive it, and is not used before it is fully constructed.
  explicit JobRanks(Monitor::Impl* impl) : impl_(*impl) {}

  // --- any thread ---
  // True if the ranks can query each other.
  bool shares_store() const;
  bool Leads() const;
  // See control_socket::Job.
  void Ask(const std::string& question, std::chrono::milliseconds time,
           std::function<void(Result<control_socket::RankWords>)> then);
  void Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
               std::function<void(Result<std::string>)> then);

  // --- loop thread ---
  std::string Answer(const std::string& question_untrusted) override;
  void Perform(int rank, const std::string& request_untrusted, Reply reply) override;

 private:
  // Why no other rank can be queried; empty: others can be queried, or there are none.
  std::string WhyAlone() const;
  // Loop thread. `then` is called on the control socket's worker, as the result may take long to parse.
  template <class Value>
  void Deliver(const std::function<void(Result<Value>)>& then, Result<Value> value);

  Monitor::Impl& impl_;
};

}  // namespace stepwatch::api
