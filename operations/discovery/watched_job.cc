#include "operations/discovery/watched_job.h"

#include <algorithm>
#include <utility>

#include "operations/discovery/beat_answer.h"
#include "operations/discovery/job_connection.h"
#include "operations/trace/parse_line.h"
#include "operations/witness/cgroup_memory.h"
#include "operations/witness/process_end.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kJobAnswerTime{2000};
// The page of a control socket has a megabyte; that of earlier releases may have some.
constexpr size_t kAnswerBytesMax = size_t{4} << 20;
constexpr double kSecondsMax = 30;  // between two attempts at a control socket that does not answer
constexpr double kFetchSecondsMax = 60;
constexpr double kProcessSeconds = 1;
// A process that nobody can see end, and whose control socket has not answered so often, is not waited for any longer.
constexpr int kFailuresMax = 30;

}  // namespace

WatchedJob::WatchedJob(control_socket::FoundSocket server, JobAround& around, Callbacks callbacks)
    : control_socket_(std::move(server)),
      around_(around),
      callbacks_(std::move(callbacks)),
      connection_(std::make_shared<JobConnection>(around.loop, control_socket_.path, control_socket_.uid, around.room)),
      teller_(around.host, around.now()) {}

void WatchedJob::Tell(const JobTeller::Lines& lines) {
  for (const Line& line : lines) {
    told_t_ = std::max(told_t_, line.t);
    around_.tell(line);
  }
}

void WatchedJob::Tick() {
  if (is_over_) return;
  const double now = around_.now();
  LookAtPulse(now);
  LookAtProcess(now);
  AskForBeats(now);
  FetchPulse(now);
}

void WatchedJob::LookAtPulse(double now) {
  if (!pulse_) return;
  const Result<PulseLook> look = pulse_->Look();
  if (!look.ok()) return;  // it is being written; a process killed in the middle is gone
  standstill_.OnLook(look.value(), now);
  JobTeller::Lines lines;
  teller_.OnPulse(Named(look.value(), now), now, &lines);
  if (teller_.HasLeft()) teller_.OnLeft(pulse_->LastWords(), now, &lines);
  Tell(lines);
}

// A step that moved says more than any state.
void WatchedJob::LookAtProcess(double now) {
  const double waited = now - process_looked_at_;
  if (!end_ || (waited < kProcessSeconds && waited >= 0)) return;
  process_looked_at_ = now;
  end_->Look();
  const bool has_moved = teller_.look() && teller_.look() != look_before_;
  look_before_ = teller_.look();
  if (!process_) return;
  const std::optional<char> state = has_moved ? 'R' : StateOf(*process_, around_.files);
  if (state == 't' && looks_open_ > 0) return;  // it is we who hold it up
  JobTeller::Lines lines;
  if (state) teller_.OnState(*state, now, &lines);
  Tell(lines);
}

void WatchedJob::AskForBeats(double now) {
  if (connection_->is_busy() || (now < ask_at_ && ask_at_ - now <= kSecondsMax) || !teller_.WantsBeats(now)) return;
  teller_.OnAsked(now);
  connection_->Get("/v1/beats?since=" + std::to_string(teller_.since()), kJobAnswerTime, kAnswerBytesMax,
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
  std::string& run = answer.value().run;
  run = uid_ ? around_.owners.NameFor(run, *uid_, around_.now()) : "";
  for (Line& line : answer.value().lines) line.run = run;
  if (!std::exchange(knows_earlier_, true) && around_.known_until)
    teller_.SetKnownUntil(around_.known_until(answer.value().run, answer.value().rank));
  JobTeller::Lines lines;
  teller_.OnBeats(answer.value(), around_.now(), &lines);
  Tell(lines);
}

// The control socket says nothing, which is no news of the process.
void WatchedJob::OnFailure(const Status& status) {
  if (status.code() == StatusCode::kExhausted && around_.on_left_out)
    around_.on_left_out(status.message() + "; its beats are not read, and the request is repeated");
  ++failures_;
  teller_.OnNoBeats();
  ask_at_ = around_.now() + std::min(kSecondsMax, static_cast<double>(1 << std::min(failures_ - 1, 5)));
  if (failures_ > kFailuresMax && (!end_ || !end_->CanTell())) Stop();
}

void WatchedJob::TakeServer() {
  const SocketServer* server = connection_->server();
  if (server != nullptr) uid_ = server->peer.uid;
  if (end_ || server == nullptr) return;
  if (server->peer.pid > 0)
    if (const auto stat = base::StatOf(server->peer.pid, around_.files))
      process_ = ProcessRef{server->peer.pid, stat->started};
  base::UniqueFd pidfd = connection_->TakePidfd();
  if (!pidfd.valid() && process_) pidfd = OpenPidfd(*process_, around_.files);
  if (process_) cgroup_ = CgroupDirectory(process_->pid, around_.files);
  end_ = std::make_shared<ProcessEnd>(
      around_.loop, std::move(pidfd), process_, [self = shared_from_this()] { self->OnGone(); }, around_.files);
  end_->Start();
}

PulseLook WatchedJob::Named(PulseLook look, double now) const {
  look.run = uid_ ? around_.owners.NameFor(base::Printable(look.run, kRunBytesMax), *uid_, now) : "";
  return look;
}

void WatchedJob::FetchPulse(double now) {
  const bool is_outdated = pulse_ && pulse_->IsOutdated();
  if (is_fetching_ || !around_.open_pulse || answers_ == 0 || (pulse_ && !is_outdated)) return;
  if (now < fetch_at_ && fetch_at_ - now <= kFetchSecondsMax) return;
  // Shared, because a function must be copyable.
  const auto opened = std::make_shared<Result<std::unique_ptr<PulseReader>>>(Status(StatusCode::kInternal, ""));
  is_fetching_ = around_.pulses.Post([open = around_.open_pulse, path = control_socket_.path, uid = control_socket_.uid,
                                      opened, mailbox = around_.mailbox, job = weak_from_this()] {
    *opened = open(path, uid);
    mailbox->Post([opened, job] {
      if (const auto self = job.lock()) self->OnPulse(std::move(*opened));
    });
  });
}

void WatchedJob::OnPulse(Result<std::unique_ptr<PulseReader>> opened) {
  is_fetching_ = false;
  if (is_over_) return;
  // Of modules without names nothing is told, so the old one serves as well.
  fetch_at_ = around_.now() + fetch_seconds_;
  fetch_seconds_ = std::min(2 * fetch_seconds_, kFetchSecondsMax);
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
      around_.loop, base::UniqueFd(), std::nullopt, [] {}, around_.files);
}

void WatchedJob::OnGone() {
  if (is_over_) return;
  is_over_ = true;
  if (!pulse_ && !teller_.has_ended() && callbacks_.hand_over(*this)) return Stop();
  callbacks_.before_gone(*this);
  const double now = around_.now();
  JobTeller::Lines lines;
  if (pulse_)
    if (const Result<PulseLook> look = pulse_->Look(); look.ok())
      teller_.OnPulse(Named(look.value(), now), now, &lines);
  teller_.OnGone(pulse_ ? pulse_->LastWords() : std::vector<LastWordLine>(), now, &lines);
  Tell(lines);
  Stop();
}

void WatchedJob::Stop() {
  is_over_ = true;
  connection_->Close();
  if (end_) end_->Stop();
}

void WatchedJob::OnStacks(const std::string& text) {
  JobTeller::Lines lines;
  teller_.OnStacks(text, around_.now(), &lines);
  Tell(lines);
}

void WatchedJob::OnCollective(const std::optional<std::string>& operation) {
  JobTeller::Lines lines;
  teller_.OnCollective(operation, around_.now(), &lines);
  Tell(lines);
}

}  // namespace stepwatch::operations
