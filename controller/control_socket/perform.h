// Has a request answered: by the worker, by the ranks of the job, or by the control socket of rank 0.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controller/control_socket/routes.h"
#include "src/base/io_executor.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {

class RequestLog;

// Who answers. Copied into work that may outlive a control socket.
struct Workplace {
  std::shared_ptr<Job> job;
  base::IoExecutor* worker = nullptr;
  std::shared_ptr<RequestLog> requests;
  std::weak_ptr<const void> owner;  // of the worker
};

// On the control socket's thread or the worker: the answer now. What the job throws ends here.
http::Answer AnswerNow(const Route& route, const Request& request, Job& job);
// Any thread. Calls `then` once, on any thread; not if the control socket is gone by then. False, and never: too much
// waits for the worker already. What is urgent is begun within the call.
bool AnswerOnWorker(const Workplace& place, const Route& route, Request request, OnAnswer then);
// The request is for the control socket of rank 0, and this is another's.
bool IsForRank0(const Route& route, const Job& job);
// As AnswerOnWorker, for what rank `rank` has handed on: `then` gets the text of the answer.
bool AnswerForwarded(const Workplace& place, int rank, std::string text_untrusted,
                     std::function<void(std::string)> then);

}  // namespace stepwatch::control_socket
