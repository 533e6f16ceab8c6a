// What a monitor says as one rank of its job, and what its control socket hears from the others.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "controller/agree/questions.h"
#include "controller/control_socket/job.h"
#include "stepwatch/monitor.h"
#include "stepwatch/status.h"

namespace stepwatch::api {

class JobRanks final : public agree::QuestionHost {
 public:
  // `impl` outlives it. Nothing is asked of it before it is whole.
  explicit JobRanks(Monitor::Impl* impl) : impl_(*impl) {}

  // --- any thread ---
  // The ranks can ask each other.
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
  // Why no other rank can be asked; empty: it can, or there is none.
  std::string WhyAlone() const;
  // Loop thread: the control socket's worker calls `then` with the result, which may be long to parse.
  template <class Value>
  void Deliver(const std::function<void(Result<Value>)>& then, Result<Value> value);

  Monitor::Impl& impl_;
};

}  // namespace stepwatch::api
