// Incidents and alerts as notices.
#include "operations/delivery/translate.h"

#include <fmt/format.h>

#include "src/vocabulary/incident_kinds_zh.h"
#include "tests/catch.h"
#include "tests/has.h"

using namespace stepwatch;
using stepwatch::testing::Has;
using namespace stepwatch::operations;
using namespace stepwatch::operations::delivery;

namespace {

StoredChange ChangeOf(const std::string& what) {
  StoredChange change;
  change.number = 7;
  change.what = what;
  change.incident.kind = IncidentKind::kLossSpike;
  change.incident.run = "llama 7b";
  change.incident.id = "llama 7b-3";
  change.incident.ranks = {5};
  change.incident.since_step = 1199;
  change.incident.evidence.Set("loss", 12.5);
  change.incident.evidence.Set("values", std::vector<double>{1, 2.25});
  change.incident.evidence.SetText("stack", "line\nline");
  change.incident.evidence.SetText("message", "two\nlines");
  change.incident.t = 1'790'000'100;
  change.incident.opened_t = 1'790'000'000;
  return change;
}

constexpr const char* kBody = R"({"receiver":"team","status":"firing","version":"4","groupKey":"{}","truncatedAlerts":0,
  "notification_reason":"new","externalURL":"http://am.example.org:9093","groupLabels":{},"commonLabels":{},
  "commonAnnotations":{},"alerts":[
  {"status":"firing","labels":{"alertname":"GPUHot","severity":"critical","instance":"node-1","rank":"3","gpu":"0"},
   "annotations":{"summary":"GPU 0 is hot","description":"95 C","runbook_url":"https://runbook.example.org/hot"},
   "startsAt":"2026-11-28T01:02:03.5+08:00","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://p/graph",
   "fingerprint":"00aa"},
  {"status":"resolved","labels":{"alertname":"Stalled","run":"llama"},"annotations":{},
   "startsAt":"2026-11-27T00:00:00Z","endsAt":"2026-11-27T00:10:00Z","fingerprint":"00bb"}]})";

}  // namespace

TEST_CASE("A change of an incident becomes a notice with its texts in both languages") {
  Links links;
  links.incident = "https://watch.example.org/i/{id}?run={run}";
  links.acknowledge = [](const Incident& incident) { return "https://watch.example.org/a/" + incident.id; };
  const Notice notice = NoticeOf(ChangeOf("opened"), links);
  CHECK(notice.key == "llama 7b-3");
  CHECK(notice.change == "llama 7b-3 opened");
  CHECK(notice.state == NoticeState::kOpened);
  CHECK(notice.kind == "loss_spike");
  CHECK(notice.title == "the loss jumped");
  CHECK(notice.title_zh == "loss 突增");
  CHECK(notice.ranks == std::vector<int64_t>{5});
  CHECK(notice.step == 1199);
  CHECK(notice.link == "https://watch.example.org/i/llama%207b-3?run=llama%207b");
  CHECK(notice.acknowledge_link == "https://watch.example.org/a/llama 7b-3");
  // Stacks are behind the link.
  CHECK(notice.evidence == std::vector<std::pair<std::string, std::string>>{
                               {"loss", "12.5"}, {"values", "1, 2.25"}, {"message", "two\\x0alines"}});
}

TEST_CASE("An update of an incident reads as its opening, other changes have identities of their own") {
  CHECK(NoticeOf(ChangeOf("updated"), {}).change == NoticeOf(ChangeOf("opened"), {}).change);
  CHECK(NoticeOf(ChangeOf("resolved"), {}).change == "llama 7b-3 resolved");
  StoredChange acknowledged = ChangeOf("acknowledged");
  acknowledged.acknowledgement = Acknowledgement{"wei", "", 1'790'000'050};
  const Notice notice = NoticeOf(acknowledged, {});
  CHECK(notice.change == "llama 7b-3 acknowledged 7");
  CHECK(notice.by == "wei");
  CHECK(notice.t == 1'790'000'050);
  CHECK(notice.link.empty());
}

TEST_CASE("Every kind of incident has Chinese texts beside the English ones") {
  for (size_t i = 0; i < kIncidentKinds; ++i) {
    const auto& zh = vocabulary::kIncidentKindTextsZh[i];
    CHECK(zh.name == vocabulary::kIncidentKindTexts[i].name);
    CHECK_FALSE(zh.meaning.empty());
    CHECK(zh.advice.size() <= Notice::kTextBytesMax);
  }
}

TEST_CASE("Evidence and ranks of a notice are bounded") {
  StoredChange change = ChangeOf("opened");
  for (int i = 0; i < 100; ++i) change.incident.evidence.SetText(fmt::format("n{}", i), std::string(5000, 'x'));
  change.incident.ranks.assign(1000, 1);
  change.incident.run = std::string(100'000, 'r');
  Links links;
  links.incident = "https://watch.example.org/{run}";
  const Notice notice = NoticeOf(change, links);
  CHECK(notice.evidence.size() == Notice::kEvidenceMax);
  CHECK(notice.ranks.size() == Notice::kRanksMax + 1);
  for (const auto& [name, value] : notice.evidence) CHECK(value.size() <= Notice::kTextBytesMax + 3);
  CHECK(notice.run.size() <= Notice::kNameBytesMax + 3);
  CHECK(notice.link.size() <= Notice::kLinkBytesMax);
}

TEST_CASE("Each alert of a webhook is a notice with a status of its own") {
  const Result<std::vector<Notice>> notices = NoticesOfWebhook(kBody);
  REQUIRE(notices.ok());
  REQUIRE(notices.value().size() == 2);
  const Notice& hot = notices.value()[0];
  CHECK(hot.key == "alert 00aa");
  CHECK(hot.state == NoticeState::kOpened);
  CHECK(hot.severity == Severity::kCritical);
  CHECK(hot.kind == "GPUHot");
  CHECK(hot.title == "GPU 0 is hot");
  CHECK(hot.host == "node-1");
  CHECK(hot.ranks == std::vector<int64_t>{3});
  CHECK(hot.link == "https://runbook.example.org/hot");
  // 01:02:03.5 in UTC+8 is 17:02:03.5 of the day before.
  CHECK(hot.opened_t == 1795798923.5);
  CHECK(hot.t == hot.opened_t);
  CHECK(hot.evidence == std::vector<std::pair<std::string, std::string>>{{"description", "95 C"}, {"gpu", "0"}});
  CHECK(hot.silence_link.starts_with("http://am.example.org:9093/#/silences/new?filter=%7Balertname%3D%22GPUHot%22"));
  // It arrives within a group that fires.
  const Notice& stalled = notices.value()[1];
  CHECK(stalled.state == NoticeState::kResolved);
  CHECK(stalled.run == "llama");
  CHECK(stalled.t - stalled.opened_t == 600);
}

TEST_CASE("A group that is sent again has the same changes") {
  const auto first = NoticesOfWebhook(kBody), second = NoticesOfWebhook(kBody);
  CHECK(first.value() == second.value());
  CHECK(first.value()[0].change == "alert 00aa opened 2026-11-28T01:02:03.5+08:00");
}

TEST_CASE("An alert without a fingerprint is known by its labels") {
  const auto key_of = [](const std::string& labels) {
    return NoticesOfWebhook(R"({"version":"4","alerts":[{"labels":{)" + labels + "}}]}").value().at(0).key;
  };
  CHECK(key_of(R"("a":"1")") == key_of(R"("a":"1")"));
  CHECK(key_of(R"("a":"1")") != key_of(R"("a":"2")"));
  CHECK(key_of(R"("a":"1","b":"2")") != key_of(R"("a":"1,1:b=1:2")"));
}

TEST_CASE("Bodies that are no webhook, or beyond a limit, are refused with the reason") {
  CHECK(NoticesOfWebhook("").status().code() == StatusCode::kInvalid);
  CHECK(NoticesOfWebhook("[]").status().code() == StatusCode::kInvalid);
  CHECK(Has(NoticesOfWebhook(R"({"version":"3","alerts":[]})").status().message(), "\"version\" \"4\""));
  CHECK(NoticesOfWebhook(R"({"version":"4","alerts":{}})").status().code() == StatusCode::kInvalid);
  CHECK(NoticesOfWebhook(R"({"version":"4","alerts":[1]})").status().code() == StatusCode::kInvalid);
  CHECK(NoticesOfWebhook(std::string(kWebhookBytesMax + 1, ' ')).status().code() == StatusCode::kExhausted);
  std::string many = R"({"version":"4","alerts":[{})";
  for (size_t i = 0; i < kWebhookAlertsMax; ++i) many += ",{}";
  CHECK(NoticesOfWebhook(many + "]}").status().code() == StatusCode::kExhausted);
}

TEST_CASE("Members of other types and wrong times in a webhook do no harm") {
  const auto notices = NoticesOfWebhook(
      R"({"version":"4","externalURL":"javascript:x","alerts":[{"status":5,
      "labels":{"alertname":[],"rank":"-1","run":7},
      "annotations":{"summary":{}},"startsAt":"2026-13-45T99:99:99Z","endsAt":7,
      "generatorURL":"ftp://x"},
      {"labels":[],"annotations":null}]})");
  REQUIRE(notices.ok());
  CHECK(notices.value()[0].kind == "alert");
  CHECK(notices.value()[0].title == "alert");
  CHECK(notices.value()[0].ranks.empty());
  CHECK(notices.value()[0].opened_t == 0);
  CHECK(notices.value()[0].link.empty());
  CHECK(notices.value()[0].silence_link.empty());
}
