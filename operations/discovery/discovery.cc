#include "operations/discovery/discovery.h"

#include <algorithm>
#include <utility>

#include "operations/discovery/known_processes.h"
#include "operations/discovery/metrics_fetch.h"
#include "operations/witness/memory.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr uint64_t kTicksOfFind = 4, kTicksOfHost = 20;
constexpr std::chrono::milliseconds kMetricsTime{3000};
constexpr size_t kRanksOfStacksMax = 16;
constexpr size_t kStacksOpenMax = 64;
constexpr double kOverSeconds = 60;  // a control socket whose process is over is ignored for this long

double SystemSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::string> AllOf(const DiscoveryOptions& options) {
  std::vector<std::string> all = options.directories;
  all.insert(all.end(), options.named.begin(), options.named.end());
  return all;
}

std::string TextOf(const StackReport& report) {
  std::string text = report.text;
  for (const std::string& refusal : report.refusals) text += "not available: " + refusal + "\n";
  return text;
}

}  // namespace

Discovery::Discovery(boost::asio::io_context& loop, DiscoveryOptions options, std::function<void(Line)> report,
                     Dependencies dependencies)
    : options_(std::move(options)),
      loop_(loop),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      dependencies_{loop,
                    mailbox_,
                    pulses_,
                    std::move(dependencies.open_pulse),
                    [report = std::move(report)](Line line) {
                      // A clock step concerns only this observer, and would otherwise apply to all runs.
                      const auto* event = std::get_if<Event>(&line.what);
                      if (event == nullptr || !std::holds_alternative<ClockStepEvent>(*event)) report(std::move(line));
                    },
                    dependencies.now ? std::move(dependencies.now) : SystemSeconds,
                    std::move(dependencies.known_until),
                    *dependencies.files,
                    options_.host,
                    [this, on_left_out = std::move(dependencies.on_left_out)](const std::string& why) {
                      ++left_out_;
                      if (on_left_out) on_left_out(why);
                    }},
      timer_(loop),
      own_(base::ThisProcess(dependencies_.files)),
      left_ends_(
          directories_, mailbox_, AllOf(options_), dependencies_.files,
          [this](const KnownProcess& known, const std::vector<control_socket::LeftEnd>& ends) {
            ReportHosts(true);
            const double reported = dependencies_.known_until ? dependencies_.known_until(known.run, known.rank) : 0;
            for (const Line& line : LastLinesOf(known, ends, std::max(reported, known.reported_t), dependencies_.now()))
              dependencies_.report(line);
            known_.Forget(KeyOf(known));
          }),
      known_(loop, dependencies_.files, [this](const KnownProcess& known) {
        // The job behind a watched control socket reports its end itself.
        if (!IsWatched(known)) left_ends_.Find(known, dependencies_.now());
      }) {}

Discovery::~Discovery() {
  Stop();
}

void Discovery::Start() {
  Tick();
}

void Discovery::Stop() {
  if (!alive_) return;
  alive_.reset();
  (void)::eventfd_write(stop_->get(), 1);
  mailbox_->Close();
  timer_.Cancel();
  known_.Stop();
  for (const auto& [key, job] : jobs_) job->Stop();
  jobs_.clear();
  for (const auto& [path, waiting] : std::exchange(fetches_, {}))
    for (const auto& each : waiting) each({});
}

std::function<void()> Discovery::IfAlive(std::function<void()> work) const {
  return [alive = std::weak_ptr(alive_), work = std::move(work)] {
    if (!alive.expired()) work();
  };
}

void Discovery::Tick() {
  if (ticks_ % kTicksOfFind == 0) {
    Find();
    LookAtStandstills();
  }
  // A job may report its end meanwhile, which is no reason to begin again.
  std::vector<std::shared_ptr<WatchedJob>> jobs;
  for (const auto& [key, job] : jobs_) jobs.push_back(job);
  for (const auto& job : jobs) job->Tick();
  if (ticks_ % kTicksOfFind == 0) SeeProcesses();
  left_ends_.Tick(dependencies_.now());
  if (ticks_ % kTicksOfHost == 0) ReportHosts();
  ++ticks_;
  timer_.After(kTick, IfAlive([this] { Tick(); }));
}

void Discovery::Find() {
  if (is_finding_) return;  // a mount hangs
  const auto sockets = std::make_shared<std::vector<control_socket::FoundSocket>>();
  is_finding_ =
      directories_.Post([mailbox = mailbox_, sockets, own = options_.directories, named = options_.named,
                         files = &dependencies_.files, found = IfAlive([this, sockets] { OnFound(*sockets); })] {
        *sockets = control_socket::FindSockets({.directories = own, .files = files});
        for (const std::string& each : named) {
          const auto others = control_socket::FindSockets({.directories = {each}, .named = each, .files = files});
          sockets->insert(sockets->end(), others.begin(), others.end());
        }
        mailbox->Post(found);
      });
}

void Discovery::OnFound(const std::vector<control_socket::FoundSocket>& sockets) {
  is_finding_ = false;
  Sweep(sockets);
  const double now = dependencies_.now();
  std::map<uid_t, size_t> of_users;
  for (const auto& [key, job] : jobs_) ++of_users[job->server().uid];
  bool is_full = false;
  for (const control_socket::FoundSocket& server : sockets) {
    const auto key = std::pair(server.path, server.inode);
    const auto silent = silent_.find(key);
    const bool waits = silent != silent_.end() && now < silent->second.again_at;
    if (jobs_.count(key) > 0 || waits) continue;
    // The control sockets of one user cannot keep out those of another.
    size_t& theirs = of_users[server.uid];
    if (jobs_.size() >= options_.jobs_max || theirs >= std::max<size_t>(1, options_.jobs_max / 2)) {
      is_full = true;
      continue;
    }
    ++theirs;
    jobs_[key] = std::make_shared<WatchedJob>(server, dependencies_, Callbacks());
  }
  if (is_full)
    dependencies_.on_left_out("some jobs are not watched: the limit is " + std::to_string(options_.jobs_max) +
                              " jobs, and half of them for one user");
}

WatchedJob::Callbacks Discovery::Callbacks() {
  const auto forget = [this](const WatchedJob& job) {
    if (const auto known = KnownOf(job)) known_.Forget(KeyOf(*known));
  };
  const auto before_gone = [this, forget](const WatchedJob& job) {
    ReportHosts(true);
    forget(job);
  };
  const auto hand_over = [this](const WatchedJob& job) {
    const std::optional<KnownProcess> known = KnownOf(job);
    if (!known) return false;
    (void)known_.See(*known);
    left_ends_.Find(*known, dependencies_.now());
    return true;
  };
  return {before_gone, hand_over, forget};
}

// Removes jobs that are over, and waits longer for control sockets that have never answered: most belong to a process
// that was killed earlier.
void Discovery::Sweep(const std::vector<control_socket::FoundSocket>& sockets) {
  const double now = dependencies_.now();
  for (auto each = jobs_.begin(); each != jobs_.end();) {
    const auto& [key, job] = *each;
    if (job->has_never_answered()) {
      Attempt& attempt = silent_[key];
      attempt.again_at = now + attempt.retry.Next();
      job->Stop();
    } else if (job->is_over()) {
      silent_[key].again_at = now + kOverSeconds;
    }
    each = job->is_over() ? jobs_.erase(each) : std::next(each);
  }
  std::erase_if(silent_, [&](const auto& each) {
    return std::none_of(sockets.begin(), sockets.end(), [&](const control_socket::FoundSocket& server) {
      return server.path == each.first.first && server.inode == each.first.second;
    });
  });
  std::erase_if(hosts_, [&](const auto& each) {
    return std::none_of(jobs_.begin(), jobs_.end(),
                        [&](const auto& job) { return job.second->reporter().run() == each.first; });
  });
}

// Also just before the end of a process is reported, so that its reason, or the lack of one, precedes it.
void Discovery::ReportHosts(bool reports_same) {
  if (jobs_.empty()) return;
  const HostMemory memory = ReadHostMemory(dependencies_.files);
  std::map<std::string, std::map<std::string, CgroupMemory>> runs;
  std::map<std::string, CgroupMemory> read;  // several ranks share one
  for (const auto& [key, job] : jobs_) {
    if (job->reporter().run().empty()) continue;
    const auto [found, is_new] = read.try_emplace(job->cgroup());
    if (is_new) found->second = ReadCgroupMemory(job->cgroup(), dependencies_.files);
    runs[job->reporter().run()].insert(*found);
  }
  for (const auto& [run, cgroups] : runs)
    if (const auto event = hosts_[run].OnMemory(options_.host, memory, cgroups, reports_same))
      dependencies_.report(Line{dependencies_.now(), run, std::nullopt, Event(*event)});
}

void Discovery::LookAtStandstills() {
  if (!options_.collects_stacks) return;
  const double now = dependencies_.now();
  for (const auto& [key, job] : jobs_) {
    if (stacks_open_ >= kRanksOfStacksMax) return;
    if (!job->process() || !job->standstill().TakeTurn(now)) continue;
    (void)PostStacks(job, Pause::kIfAsleep, [job = job](const StackReport& report) {
      if (report.was_seen) job->OnCollective(report.collective);
    });
  }
}

bool Discovery::PostStacks(const std::shared_ptr<WatchedJob>& job, Pause pause, std::function<void(StackReport)> done) {
  if (stacks_open_ >= kStacksOpenMax) return false;
  const auto report = std::make_shared<StackReport>();
  const auto collected = IfAlive([this, report, job, done = std::move(done)] {
    --stacks_open_;
    job->EndLook();
    done(std::move(*report));
  });
  StackTools tools = options_.stacks;
  tools.stop_fd = stop_->get();
  const bool is_posted = stacks_.Post([process = *job->process(), pause, tools = std::move(tools), stop = stop_, report,
                                       collected, mailbox = mailbox_, files = &dependencies_.files] {
    *report = operations::CollectStacks(process, pause, tools, *files);
    mailbox->Post(collected);
  });
  if (!is_posted) return false;
  ++stacks_open_;
  job->BeginLook();
  return true;
}

void Discovery::CollectStacks(const std::string& run, const std::vector<int64_t>& ranks,
                              std::function<void(std::vector<RankStacks>)> done) {
  struct Gathering {
    size_t open = 0;
    std::vector<RankStacks> stacks;
    std::function<void(std::vector<RankStacks>)> done;

    void Finish() {
      if (open == 0 && done) done(std::move(stacks));
    }
  };
  const auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  for (const auto& [key, job] : jobs_) {
    const int64_t rank = job->reporter().rank();
    const bool is_meant = ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    if (job->reporter().run() != run || !is_meant || !job->process() || gathering->open == kRanksOfStacksMax) continue;
    const bool is_posted = PostStacks(job, Pause::kYes, [gathering, rank, job = job](StackReport report) {
      job->OnStacks(TextOf(report));
      if (report.was_seen) job->OnCollective(report.collective);
      gathering->stacks.push_back({rank, std::move(report)});
      --gathering->open;
      gathering->Finish();
    });
    if (is_posted) ++gathering->open;
  }
  if (gathering->open == 0) mailbox_->Post(IfAlive([gathering] { gathering->Finish(); }));
}

void Discovery::Remember(const std::vector<KnownProcess>& processes) {
  for (const KnownProcess& each : processes) {
    known_.Remember(each);
    if (each.uid) (void)dependencies_.owners.NameFor(each.run, *each.uid, dependencies_.now());
  }
}

void Discovery::SeeProcesses() {
  const size_t before = known_.size();
  for (const auto& [key, job] : jobs_) {
    const auto known = KnownOf(*job);
    if (known && !job->is_over() && !known_.See(*known))
      dependencies_.on_left_out("more than " + std::to_string(KnownProcesses::kProcessesMax) +
                                " processes are known; if one of the others ends while its control socket does not "
                                "respond, its end is not reported");
  }
  // From here on kills for memory are counted: one may come before the next look at the hosts.
  if (known_.size() > before) ReportHosts();
  known_.Tick(dependencies_.now());
}

std::optional<KnownProcess> Discovery::KnownOf(const WatchedJob& job) const {
  const JobReporter& reporter = job.reporter();
  KnownProcess known{reporter.run(), reporter.rank(), {}, {}, dependencies_.now(), job.reported_t(), job.uid()};
  if (job.process()) {
    known.process = own_;
    known.process.pid = job.process()->pid;
    known.process.started = job.process()->started;
  }
  if (reporter.look()) known.own = reporter.look()->process;
  if (known.run.empty() || (known.process.pid <= 0 && known.own.pid <= 0)) return std::nullopt;
  return known;
}

bool Discovery::IsWatched(const KnownProcess& known) const {
  const ProcessRef process{known.process.pid, known.process.started};
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& job) { return !job.second->is_over() && job.second->process() == process; });
}

void Discovery::Fetch(const std::string& path, std::function<void(const JobPages& pages)> done) {
  // Requests during a fetch get the same pages, so that many of them use no more memory than one.
  auto& waiting = fetches_[path];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  std::vector<MetricsQuestion> questions;
  for (const auto& [key, job] : jobs_) {
    const JobReporter& reporter = job->reporter();
    const bool is_meant = path == "/metrics" || job->uid() == ::geteuid();
    if (reporter.run().empty() || !is_meant) continue;
    questions.push_back({job->server(),
                         {{"run", reporter.run()},
                          {"rank", std::to_string(reporter.rank())},
                          {"job", base::Printable(job->server().name)}}});
  }
  FetchPages(loop_, questions, path, kMetricsTime, dependencies_.room,
             [this, path, alive = std::weak_ptr(alive_)](const JobPages& pages) {
               if (alive.expired()) return;
               for (const auto& each : std::exchange(fetches_[path], {})) each(pages);
             });
}

}  // namespace stepwatch::operations
