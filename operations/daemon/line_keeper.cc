#include "operations/daemon/line_keeper.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "operations/daemon/log.h"
#include "operations/daemon/loss_log.h"
#include "operations/trace/write_line.h"

namespace stepwatch::operations {
namespace {

// A trace contains no line without a run.
constexpr const char* kNoRun = "-";

bool Begins(const Line& line) {
  const auto* event = std::get_if<Event>(&line.what);
  return event != nullptr &&
         (std::holds_alternative<StartEvent>(*event) || std::holds_alternative<RestartEvent>(*event));
}

}  // namespace

LineKeeper::LineKeeper(boost::asio::io_context& loop, std::string directory, std::function<double()> wall,
                       StoreQueue* store, Log* log, LossLog* losses)
    : loop_(loop),
      directory_(std::move(directory)),
      wall_(std::move(wall)),
      store_(*store),
      log_(*log),
      losses_(*losses) {}

Status LineKeeper::Open(const UpstreamSettings& settings) {
  if (settings.url.empty()) return Status();
  const Result<UpstreamAddress> address = ParseUpstream(settings.url);
  if (!address.ok()) return address.status();
  UpstreamOptions options;
  options.target = {address.value(), settings.token_file, settings.spool_mib << 20};
  options.directory = directory_;
  options.wall = wall_;
  options.on_trouble = [this](const std::string& why) {
    log_.Write(LogLevel::kWarning,
               "cannot send lines to the upstream: " + why + "; they wait on disk and are sent later");
  };
  options.on_loss = [this](const std::string& why) { losses_.Write("upstream: " + why); };
  options.on_recovery = [this] { log_.Write(LogLevel::kInfo, "the upstream accepts lines again"); };
  upstream_ = std::make_unique<Upstream>(loop_, std::move(options));
  return Status();
}

void LineKeeper::Apply(const UpstreamSettings& settings) {
  if (settings.url.empty()) return upstream_.reset();
  if (!upstream_) {
    if (const Status opened = Open(settings); !opened.ok()) log_.Write(LogLevel::kError, opened.message());
    return;
  }
  const Result<UpstreamAddress> address = ParseUpstream(settings.url);
  if (!address.ok())
    return log_.Write(LogLevel::kError, address.status().message() + "; lines are still sent to the previous upstream");
  upstream_->SetTarget({address.value(), settings.token_file, settings.spool_mib << 20});
}

void LineKeeper::Tick(double running) {
  if (upstream_) upstream_->Tick(running);
}

void LineKeeper::Keep(const Line& line, bool is_ours) {
  Line named = line;
  if (is_ours) named.run = kNoRun;
  std::string json = LineJson(named);
  if (upstream_ && !is_ours) upstream_->Add(json);
  store_.next().Add({++number_, line.run, line.t, std::move(json), Begins(line)});
  if (store_.next().line_bytes() > StoreQueue::kLineBytesMax) store_.Bound();
}

void LineKeeper::CountFrom(int64_t number) {
  number_ = std::max(number_, number);
}

}  // namespace stepwatch::operations
