// Has a request answered by the worker, by the ranks of the job, or by the control socket of rank 0.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controller/control_socket/routes.h"
#include "src/base/io_executor.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {

class RequestLog;

// The parts that answer requests. Copied into work that may outlive a control socket.
struct Workplace {
  std::shared_ptr<Job> job;
  base::IoExecutor* worker = nullptr;
  std::shared_ptr<RequestLog> requests;
  std::weak_ptr<const void> owner;  // owner of the worker
};

// Control socket's thread or worker: returns the answer. Catches the exceptions of the job.
http::Answer AnswerNow(const Route& route, const Request& request, Job& job);
// Any thread. Calls `then` once, on any thread; not if the control socket no longer exists then. Returns false, without
// a call, if too much work is queued. Urgent requests begin within the call.
bool AnswerOnWorker(const Workplace& place, const Route& route, Request request, OnAnswer then);
// True if the request is for the control socket of rank 0 and this is another one.
bool IsForRank0(const Route& route, const Job& job);
// The same as AnswerOnWorker for a request that `rank` forwarded: `then` receives the text of the answer.
bool AnswerForwarded(const Workplace& place, int rank, std::string text_untrusted,
                     std::function<void(std::string)> then);

}  // namespace stepwatch::control_socket
