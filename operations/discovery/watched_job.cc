#include "operations/discovery/watched_job.h"

#include <algorithm>
#include <utility>

#include "operations/discovery/beat_answer.h"
#include "operations/discovery/job_connection.h"
#include "operations/trace/parse_line.h"
#include "operations/witness/memory.h"
#include "operations/witness/process_end.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kJobAnswerTime{2000};
// The page of a control socket has up to a megabyte, in earlier releases somewhat more.
constexpr size_t kAnswerBytesMax = size_t{4} << 20;
constexpr double kProcessSeconds = 1;
// A job is given up if its process cannot be watched and its control socket has failed this often.
constexpr int kFailuresMax = 30;

}  // namespace

WatchedJob::WatchedJob(control_socket::FoundSocket server, JobDependencies& dependencies, Callbacks callbacks)
    : control_socket_(std::move(server)),
      dependencies_(dependencies),
      callbacks_(std::move(callbacks)),
      connection_(std::make_shared<JobConnection>(dependencies.loop, control_socket_.path, control_socket_.uid,
                                                  dependencies.room)),
      reporter_(dependencies.host, dependencies.now()) {}

void WatchedJob::Report(const JobReporter::Lines& lines) {
  for (const Line& line : lines) {
    reported_t_ = std::max(reported_t_, line.t);
    dependencies_.report(line);
  }
}

void WatchedJob::Tick() {
  if (is_over_) return;
  const double now = dependencies_.now();
  LookAtPulse(now);
  LookAtProcess(now);
  RequestBeats(now);
  FetchPulse(now);
}

void WatchedJob::LookAtPulse(double now) {
  if (!pulse_) return;
  const Result<PulseLook> look = pulse_->Look();
  if (!look.ok()) return;  // it is being written; a process killed during the write has ended
  standstill_.OnLook(look.value(), now);
  JobReporter::Lines lines;
  reporter_.OnPulse(Named(look.value(), now), now, &lines);
  if (reporter_.HasLeft()) reporter_.OnLeft(pulse_->LastWords(), now, &lines);
  Report(lines);
}

// A finished step is stronger evidence than the state of the process.
void WatchedJob::LookAtProcess(double now) {
  const double waited = now - process_looked_at_;
  if (!end_ || (waited < kProcessSeconds && waited >= 0)) return;
  process_looked_at_ = now;
  end_->Look();
  const bool has_moved = reporter_.look() && reporter_.look() != look_before_;
  look_before_ = reporter_.look();
  if (!process_) return;
  const std::optional<char> state = has_moved ? 'R' : StateOf(*process_, dependencies_.files);
  if (state == 't' && looks_open_ > 0) return;  // stepwatchd itself delays it
  JobReporter::Lines lines;
  if (state) reporter_.OnState(*state, now, &lines);
  Report(lines);
}

void WatchedJob::RequestBeats(double now) {
  if (connection_->is_busy() || (now < ask_at_ && ask_at_ - now <= ask_retry_.most()) || !reporter_.WantsBeats(now))
    return;
  reporter_.OnAsked(now);
  connection_->Get("/v1/beats?since=" + std::to_string(reporter_.since()), kJobAnswerTime, kAnswerBytesMax,
                   [self = shared_from_this()](const Result<http::Reply>& reply) { self->OnBeats(reply); });
}

void WatchedJob::OnBeats(const Result<http::Reply>& reply) {
  if (is_over_) return;
  if (!reply.ok()) return OnFailure(reply.status());
  ++answers_;
  TakeServer();
  Result<BeatAnswer> answer = reply.value().status == 200
                                  ? ParseBeatAnswer(reply.value().body)
                                  : Status(StatusCode::kUnsupported, control_socket_.path + " does not serve beats");
  if (!answer.ok()) return OnFailure(answer.status());
  failures_ = 0;
  ask_retry_.Reset();
  std::string& run = answer.value().run;
  run = uid_ ? dependencies_.owners.NameFor(run, *uid_, dependencies_.now()) : "";
  for (Line& line : answer.value().lines) line.run = run;
  if (!std::exchange(knows_earlier_, true) && dependencies_.known_until)
    reporter_.SetKnownUntil(dependencies_.known_until(answer.value().run, answer.value().rank));
  JobReporter::Lines lines;
  reporter_.OnBeats(answer.value(), dependencies_.now(), &lines);
  Report(lines);
}

// A control socket that does not answer is no evidence about its process.
void WatchedJob::OnFailure(const Status& status) {
  if (status.code() == StatusCode::kExhausted && dependencies_.on_left_out)
    dependencies_.on_left_out(status.message() + "; its beats are not read, and the request is repeated");
  ++failures_;
  reporter_.OnNoBeats();
  ask_at_ = dependencies_.now() + ask_retry_.Next();
  if (failures_ > kFailuresMax && (!end_ || !end_->CanTell())) Stop();
}

void WatchedJob::TakeServer() {
  const SocketServer* server = connection_->server();
  if (server != nullptr) uid_ = server->peer.uid;
  if (end_ || server == nullptr) return;
  if (server->peer.pid > 0)
    if (const auto stat = base::StatOf(server->peer.pid, dependencies_.files))
      process_ = ProcessRef{server->peer.pid, stat->started};
  base::UniqueFd pidfd = connection_->TakePidfd();
  if (!pidfd.valid() && process_) pidfd = OpenPidfd(*process_, dependencies_.files);
  if (process_) cgroup_ = CgroupDirectory(process_->pid, dependencies_.files);
  end_ = std::make_shared<ProcessEnd>(
      dependencies_.loop, std::move(pidfd), process_, [self = shared_from_this()] { self->OnGone(); },
      dependencies_.files);
  end_->Start();
}

PulseLook WatchedJob::Named(PulseLook look, double now) const {
  look.run = uid_ ? dependencies_.owners.NameFor(base::Printable(look.run, kRunBytesMax), *uid_, now) : "";
  return look;
}

void WatchedJob::FetchPulse(double now) {
  const bool is_outdated = pulse_ && pulse_->IsOutdated();
  if (is_fetching_ || !dependencies_.open_pulse || answers_ == 0 || (pulse_ && !is_outdated)) return;
  if (now < fetch_at_ && fetch_at_ - now <= fetch_retry_.most()) return;
  // Shared, because a function must be copyable.
  const auto opened = std::make_shared<Result<std::unique_ptr<PulseReader>>>(Status(StatusCode::kInternal, ""));
  is_fetching_ = dependencies_.pulses.Post([open = dependencies_.open_pulse, path = control_socket_.path,
                                            uid = control_socket_.uid, opened, mailbox = dependencies_.mailbox,
                                            job = weak_from_this()] {
    *opened = open(path, uid);
    mailbox->Post([opened, job] {
      if (const auto self = job.lock()) self->OnPulse(std::move(*opened));
    });
  });
}

void WatchedJob::OnPulse(Result<std::unique_ptr<PulseReader>> opened) {
  is_fetching_ = false;
  if (is_over_) return;
  // Modules without names are not reported, so the old pulse is sufficient.
  fetch_at_ = dependencies_.now() + fetch_retry_.Next();
  if (!opened.ok()) return;
  pulse_ = std::move(opened).value();
  if (const Result<PulseLook> look = pulse_->Look(); look.ok()) CompareServer(look.value());
}

void WatchedJob::CompareServer(const PulseLook& look) {
  if (!process_ || look.process.started == 0 || look.process.started == process_->started) return;
  callbacks_.forget(*this);
  process_.reset();
  cgroup_.clear();
  if (end_) end_->Stop();
  end_ = std::make_shared<ProcessEnd>(
      dependencies_.loop, base::UniqueFd(), std::nullopt, [] {}, dependencies_.files);
}

void WatchedJob::OnGone() {
  if (is_over_) return;
  is_over_ = true;
  if (!pulse_ && !reporter_.has_ended() && callbacks_.hand_over(*this)) return Stop();
  callbacks_.before_gone(*this);
  const double now = dependencies_.now();
  JobReporter::Lines lines;
  if (pulse_)
    if (const Result<PulseLook> look = pulse_->Look(); look.ok())
      reporter_.OnPulse(Named(look.value(), now), now, &lines);
  reporter_.OnGone(pulse_ ? pulse_->LastWords() : std::vector<LastWordLine>(), now, &lines);
  Report(lines);
  Stop();
}

void WatchedJob::Stop() {
  is_over_ = true;
  connection_->Close();
  if (end_) end_->Stop();
}

void WatchedJob::OnStacks(const std::string& text) {
  JobReporter::Lines lines;
  reporter_.OnStacks(text, dependencies_.now(), &lines);
  Report(lines);
}

void WatchedJob::OnCollective(const std::optional<std::string>& operation) {
  JobReporter::Lines lines;
  reporter_.OnCollective(operation, dependencies_.now(), &lines);
  Report(lines);
}

}  // namespace stepwatch::operations
