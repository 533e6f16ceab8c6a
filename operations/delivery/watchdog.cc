#include "operations/delivery/watchdog.h"

namespace stepwatch::operations::delivery {

void Watchdog::Tick(const DeliverySettings& settings, Moment now) {
  Ping(settings, now);
  LookForAlert(settings, now);
}

void Watchdog::Ping(const DeliverySettings& settings, Moment now) {
  const bool is_wanted = !settings.watchdog_url.empty() || !settings.watchdog_url_file.empty();
  if (!is_wanted || is_pinging_ || (pinged_ && now.running - *pinged_ < settings.watchdog_seconds)) return;
  pinged_ = now.running;
  is_pinging_ = true;
  ReceiverSettings target;
  target.name = "the watchdog";
  target.url = settings.watchdog_url;
  target.url_file = settings.watchdog_url_file;
  dependencies_.ping(target, [this](const Judgement& judgement) {
    is_pinging_ = false;
    const bool was_in_trouble = std::exchange(in_trouble_, judgement.verdict != Verdict::kSent);
    if (!in_trouble_ && was_in_trouble) dependencies_.log(false, "the watchdog is reached again");
    if (in_trouble_ && !was_in_trouble) dependencies_.log(true, "cannot reach the watchdog: " + judgement.reason);
  });
}

// Prometheus and its Alertmanager report nothing any more when they are gone, so this message takes another way.
void Watchdog::LookForAlert(const DeliverySettings& settings, Moment now) {
  if (settings.watchdog_expected_seconds <= 0) {
    heard_.reset();
    missed_.reset();
    return;
  }
  if (!heard_) heard_ = now.running;
  if (missed_ || now.running - *heard_ < settings.watchdog_expected_seconds) return;
  missed_ = now.wall;
  Report(NoticeState::kOpened, now);
}

void Watchdog::Hear(Moment now) {
  heard_ = now.running;
  if (!missed_) return;
  Report(NoticeState::kResolved, now);
  missed_.reset();
}

void Watchdog::Report(NoticeState state, Moment now) {
  Notice notice;
  notice.key = "watchdog " + std::to_string(static_cast<int64_t>(missed_.value_or(0)));
  notice.change = notice.key + " " + std::string(NameOf(state));
  notice.state = state;
  notice.severity = Severity::kWarning;
  notice.kind = "watchdog_missing";
  notice.title = "the Watchdog alert of Prometheus no longer arrives";
  notice.title_zh = "不再收到 Prometheus 的 Watchdog 告警";
  notice.advice = "Look at Prometheus and Alertmanager, and at the network between them and stepwatchd.";
  notice.advice_zh = "请检查 Prometheus、Alertmanager 以及它们到 stepwatchd 的网络。";
  notice.t = now.wall;
  notice.opened_t = missed_.value_or(now.wall);
  dependencies_.report(notice);
}

}  // namespace stepwatch::operations::delivery
