// The requests of each receiver.
#include "operations/delivery/receiver.h"

#include <nlohmann/json.hpp>

#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "operations/delivery/translate.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/operations/delivery/notices.h"

using namespace stepwatch;
using stepwatch::testing::Has;
using namespace stepwatch::operations;
using namespace stepwatch::operations::delivery;

namespace {

constexpr double kNow = 1'790'000'060;

ReceiverSettings SettingsOf(ReceiverType type, const std::string& language = "en") {
  ReceiverSettings settings;
  settings.name = "team";
  settings.type = type;
  settings.language = language;
  settings.url_file = "/secrets/url";
  if (type == ReceiverType::kEmail) {
    settings.from = "stepwatch@example.org";
    settings.to = {"a@example.org", "b@example.org"};
  }
  return settings;
}

Secrets SecretsOf(ReceiverType type) {
  if (type == ReceiverType::kEmail) return {"smtp://mail.example.org:25", "", "", ""};
  return {"https://bot.example.org/hook/0123456789abcdef?key=fedcba9876543210", "demo-secret", "token-of-alerts", ""};
}

Outgoing OutgoingOf(ReceiverType type, const std::vector<Notice>& notices, size_t more = 0,
                    const std::string& language = "en") {
  Result<Outgoing> out = MakeOutgoing(SettingsOf(type, language), SecretsOf(type), notices, more, kNow);
  REQUIRE(out.ok());
  return out.value();
}

Json BodyOf(ReceiverType type, const std::vector<Notice>& notices, size_t more = 0,
            const std::string& language = "en") {
  Result<Json> json = json::Parse(OutgoingOf(type, notices, more, language).body);
  REQUIRE(json.ok());
  return json.value();
}

constexpr ReceiverType kAllTypes[] = {ReceiverType::kAlertmanager, ReceiverType::kFeishu, ReceiverType::kDingTalk,
                                      ReceiverType::kWeCom,        ReceiverType::kSlack,  ReceiverType::kEmail,
                                      ReceiverType::kWebhook};

// The text of base64 in lines.
std::string Decoded(const std::string& text) {
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = digits.find(c);
    if (digit == std::string_view::npos) continue;
    bits = (bits << 6) | static_cast<unsigned>(digit);
    if ((count += 6) >= 8) bytes += static_cast<char>((bits >> (count -= 8)) & 255);
  }
  return bytes;
}

}  // namespace

TEST_CASE("Feishu's signature is that of its documented algorithm") {
  CHECK(FeishuSignature(1599360473, "demo-secret") == "3/MaVZ8JLIy4TUG+7KSFJqvUkTKd+HWY8g+56DZWq8s=");
}

TEST_CASE("A Feishu message is a signed card whose colour is that of the state") {
  const Json body = BodyOf(ReceiverType::kFeishu, {SpikeNotice()});
  CHECK(body["timestamp"] == "1790000060");
  CHECK(body["sign"] == FeishuSignature(1790000060, "demo-secret"));
  CHECK(body["msg_type"] == "interactive");
  CHECK(body["card"]["header"]["template"] == "red");
  CHECK(body["card"]["header"]["title"]["content"] == "[critical] llama-7b: the loss is NaN or infinite");
  const std::string text = body.dump();
  for (const char* part :
       {"**Run**\\nllama-7b", "**Rank**\\n3, 5", "**Step**\\n1200", "loss: nan", "loss&#95;scale: 0.5",
        "Go back to the checkpoint", "https://watch.example.org/incidents/llama-7b-1"})
    CHECK(Has(text, part));
  Notice resolved = SpikeNotice();
  resolved.state = NoticeState::kResolved;
  resolved.t += 7300;
  const Json green = BodyOf(ReceiverType::kFeishu, {resolved}, 0, "zh");
  CHECK(green["card"]["header"]["template"] == "green");
  CHECK(green["card"]["header"]["title"]["content"] == "[已恢复] llama-7b：loss 为 NaN 或无穷大");
  CHECK(Has(green.dump(), "**持续**\\n2 小时 1 分钟"));
  CHECK(BodyOf(ReceiverType::kFeishu, {SpikeNotice(), resolved})["card"]["header"]["template"] == "orange");
}

TEST_CASE("DingTalk's address is signed, and its key stays") {
  const Outgoing out = OutgoingOf(ReceiverType::kDingTalk, {SpikeNotice()});
  CHECK(out.url ==
        "https://bot.example.org/hook/0123456789abcdef?key=fedcba9876543210&timestamp=1790000060000&sign="
        "HPEnbXkcmiuuVKCfTvfeLSv1pqX4Gx0bUp%2FStvR%2BnjA%3D");
  CHECK(DingTalkAddress("https://x/y", "", 1) == "https://x/y");
  const Json body = BodyOf(ReceiverType::kDingTalk, {SpikeNotice()});
  CHECK(body["msgtype"] == "markdown");
  CHECK(Has(body["markdown"]["text"].get<std::string>(), "**Rank**: 3, 5"));
}

TEST_CASE("Alertmanager gets an end ahead for an open alert, and the true end of a resolved one") {
  Notice resolved = SpikeNotice();
  resolved.state = NoticeState::kResolved;
  resolved.t += 30.5;
  const Outgoing out = OutgoingOf(ReceiverType::kAlertmanager, {SpikeNotice(), resolved});
  CHECK(out.url.ends_with("/api/v2/alerts"));
  const Json body = json::Parse(out.body).value();
  CHECK(body[0]["startsAt"] == "2026-09-21T14:13:20.000Z");
  CHECK(body[0]["endsAt"] == "2026-09-21T14:19:20.000Z");
  CHECK(body[1]["endsAt"] == "2026-09-21T14:13:50.500Z");
  // An alert is its labels: they are the same, and hold no value that changes.
  CHECK(body[0]["labels"] == body[1]["labels"]);
  CHECK(body[0]["labels"] == Json({{"alertname", "loss_nonfinite"},
                                   {"severity", "critical"},
                                   {"component", "training"},
                                   {"run", "llama-7b"},
                                   {"host", "node-3"},
                                   {"owner", "vision"},
                                   {"incident", "llama-7b-1"}}));
  CHECK(body[0]["annotations"]["summary_zh"] == "loss 为 NaN 或无穷大");
  CHECK(body[0]["annotations"]["dashboard_url"] == SpikeNotice().link);
  CHECK(body[0]["generatorURL"] == SpikeNotice().link);
}

TEST_CASE("An incident that passes through Alertmanager keeps its texts") {
  const Notice notice = SpikeNotice();
  Json alerts = BodyOf(ReceiverType::kAlertmanager, {notice});
  alerts[0]["status"] = "firing";
  const std::string body = json::Dump({{"version", "4"}, {"alerts", alerts}});
  const Notice back = NoticesOfWebhook(body).value().at(0);
  CHECK(back.kind == notice.kind);
  CHECK(back.title == notice.title);
  CHECK(back.title_zh == notice.title_zh);
  CHECK(back.advice == notice.advice);
  CHECK(back.advice_zh == notice.advice_zh);
  CHECK(back.severity == notice.severity);
  CHECK(back.run == notice.run);
  CHECK(back.host == notice.host);
  CHECK(back.owner == notice.owner);
  CHECK(back.opened_t == notice.opened_t);
  CHECK(back.link == notice.link);
  REQUIRE(back.evidence.size() == 1);
  CHECK(back.evidence[0].second == "ranks: 3, 5; step: 1200; loss: nan; loss_scale: 0.5");
  CHECK(back.ranks == notice.ranks);
  CHECK(back.step == notice.step);
}

TEST_CASE("An alert never ends before it starts, nor starts in the future") {
  Notice notice = SpikeNotice();
  notice.state = NoticeState::kResolved;
  notice.opened_t = kNow + 500;
  notice.t = 5;
  const Json body = BodyOf(ReceiverType::kAlertmanager, {notice});
  CHECK(body[0]["startsAt"] == body[0]["endsAt"]);
  CHECK(body[0]["startsAt"] == TimeText(kNow, true));
}

TEST_CASE("Names of labels become names that Alertmanager accepts") {
  CHECK(LabelName("run") == "run");
  CHECK(LabelName("9-b.c") == "_9_b_c");
  CHECK(LabelName("损") == "___");
  CHECK(LabelName("").size() == 1);
  const Json body = BodyOf(ReceiverType::kAlertmanager, {HostileNotice()});
  for (const auto& [name, value] : body[0]["labels"].items()) {
    CHECK(name == LabelName(name));
    CHECK_FALSE(value.get<std::string>().empty());
  }
}

TEST_CASE("A webhook carries every member, with a token and a signature of its body") {
  const Outgoing out = OutgoingOf(ReceiverType::kWebhook, {SpikeNotice()});
  const std::vector<std::string> expected = {
      "X-Stepwatch-Timestamp: 1790000060",
      "X-Stepwatch-Signature: " + WebhookSignature(1790000060, "demo-secret", out.body),
      "Content-Type: application/json; charset=utf-8", "Authorization: Bearer token-of-alerts"};
  CHECK(out.headers == expected);
  CHECK(WebhookSignature(1, "key", "{}") == "sha256=1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224");
  const Json body = json::Parse(out.body).value();
  CHECK(body["version"] == 1);
  CHECK(body["notices"][0]["state"] == "opened");
  CHECK(body["notices"][0]["ranks"] == Json({3, 5}));
  CHECK(body["notices"][0]["evidence"]["loss_scale"] == "0.5");
  CHECK(body["notices"][0]["by"].is_null());
}

TEST_CASE("A mail has its headers, a thread for each incident, and a body of base64") {
  const Outgoing out = OutgoingOf(ReceiverType::kEmail, {SpikeNotice()});
  REQUIRE(out.mail);
  CHECK(out.mail->from == "stepwatch@example.org");
  CHECK(out.mail->to.size() == 2);
  const std::string& text = out.mail->text;
  CHECK(Has(text, "Date: Mon, 21 Sep 2026 14:14:20 +0000\r\n"));
  CHECK(Has(text, "To: a@example.org,\r\n b@example.org\r\n"));
  CHECK(Has(text, "Subject: [critical] llama-7b: the loss is NaN or infinite\r\n"));
  const std::string body = Decoded(text.substr(text.find("\r\n\r\n")));
  CHECK(Has(body, "Rank: 3, 5\n"));
  CHECK(Has(body, "Show incident: https://watch.example.org/incidents/llama-7b-1\n"));

  Notice resolved = SpikeNotice();
  resolved.state = NoticeState::kResolved;
  resolved.change = "llama-7b-1 resolved";
  const std::string other = OutgoingOf(ReceiverType::kEmail, {resolved}, 0, "zh").mail->text;
  const auto line = [](const std::string& mail, const std::string& name) {
    const size_t at = mail.find("\r\n" + name + ": ");
    return mail.substr(at, mail.find("\r\n", at + 2) - at);
  };
  CHECK(line(text, "References") == line(other, "References"));
  CHECK(line(text, "Message-ID") != line(other, "Message-ID"));
  CHECK(line(other, "Subject").starts_with("\r\nSubject: =?UTF-8?B?"));
}

TEST_CASE("Foreign text cannot add a header to a mail") {
  const std::string text = OutgoingOf(ReceiverType::kEmail, {HostileNotice()}).mail->text;
  const std::string head = text.substr(0, text.find("\r\n\r\n"));
  CHECK_FALSE(Has(head, "Bcc"));
  for (size_t i = 0; i < head.size(); ++i) {
    const auto byte = static_cast<unsigned char>(head[i]);
    CHECK(byte < 0x7f);
    if (head[i] == '\n') CHECK(head[i - 1] == '\r');
  }
  size_t begin = 0;
  for (size_t end = 0; end != std::string::npos; begin = end + 2) {
    end = head.find("\r\n", begin);
    CHECK(std::min(end, head.size()) - begin <= 200);
  }
}

TEST_CASE("Foreign text becomes neither markup nor a mention in any chat") {
  const std::string slack = BodyOf(ReceiverType::kSlack, {HostileNotice()}).dump();
  CHECK_FALSE(Has(slack, "<!channel>"));
  CHECK(Has(slack, "&lt;!channel&gt;"));
  const std::string feishu = BodyOf(ReceiverType::kFeishu, {HostileNotice()})["card"]["elements"].dump();
  CHECK_FALSE(Has(feishu, "<at"));
  CHECK_FALSE(Has(feishu, "[l]("));
  for (const ReceiverType type : {ReceiverType::kDingTalk, ReceiverType::kWeCom}) {
    const std::string text = BodyOf(type, {HostileNotice()})["markdown"].dump();
    CHECK_FALSE(Has(text, "<at"));
    CHECK_FALSE(Has(text, "](http://e"));
  }
  // Addresses that are not of the web are left out.
  for (const ReceiverType type : kAllTypes) {
    if (type == ReceiverType::kWebhook) continue;
    const Outgoing out = OutgoingOf(type, {HostileNotice()});
    CHECK_FALSE(Has(out.body, "javascript:"));
    CHECK_FALSE(Has(out.body, "<b>"));
  }
}

TEST_CASE("The largest notices stay within the limit of each receiver, with a remark") {
  for (const std::string language : {"en", "zh"}) {
    for (const size_t count : {size_t{1}, size_t{100}}) {
      const std::vector<Notice> notices(count, LongNotice());
      CAPTURE(language, count);
      CHECK(OutgoingOf(ReceiverType::kFeishu, notices, 0, language).body.size() <= 20'000);
      CHECK(OutgoingOf(ReceiverType::kDingTalk, notices, 0, language).body.size() <= 20'000);
      const Json wecom = BodyOf(ReceiverType::kWeCom, notices, 0, language);
      CHECK(wecom["markdown"]["content"].get<std::string>().size() <= 4096);
      const Json slack = BodyOf(ReceiverType::kSlack, notices, 0, language);
      const Json& blocks = slack["attachments"][0]["blocks"];
      CHECK(blocks.size() <= 50);
      for (const Json& block : blocks) {
        if (block["type"] == "section" && block.contains("text")) {
          CHECK(block["text"]["text"].get<std::string>().size() <= 3000);
        }
        if (block.contains("fields")) {
          CHECK(block["fields"].size() <= 10);
          for (const Json& field : block["fields"]) CHECK(field["text"].get<std::string>().size() <= 2000);
        }
      }
    }
  }
  CHECK(Has(OutgoingOf(ReceiverType::kWeCom, {LongNotice()}).body, "Shortened: "));
  CHECK_FALSE(Has(OutgoingOf(ReceiverType::kWeCom, {SpikeNotice()}).body, "Shortened: "));
}

TEST_CASE("Text that only escapes can carry stays within the limits too") {
  for (const char mark : {'*', '&', '"', '\\', '<'}) {
    Notice notice = LongNotice();
    const std::string text(Notice::kTextBytesMax, mark);
    notice.title = notice.advice = text;
    notice.run = notice.host = notice.owner = notice.by = text.substr(0, Notice::kNameBytesMax);
    notice.evidence.assign(Notice::kEvidenceMax, {text.substr(0, Notice::kNameBytesMax), text});
    for (const size_t count : {size_t{1}, size_t{100}}) {
      const std::vector<Notice> notices(count, notice);
      CAPTURE(mark, count);
      CHECK(OutgoingOf(ReceiverType::kFeishu, notices).body.size() <= 20'000);
      CHECK(OutgoingOf(ReceiverType::kDingTalk, notices).body.size() <= 20'000);
      CHECK(BodyOf(ReceiverType::kWeCom, notices)["markdown"]["content"].get<std::string>().size() <= 4096);
    }
  }
}

TEST_CASE("All ampersands stay within the limits of Slack") {
  Notice notice = SpikeNotice();
  notice.advice = std::string(Notice::kTextBytesMax, '&');
  notice.evidence.assign(Notice::kEvidenceMax, {"a", std::string(Notice::kTextBytesMax, '<')});
  const Json body = BodyOf(ReceiverType::kSlack, {notice});
  for (const Json& block : body["attachments"][0]["blocks"])
    if (block.contains("text")) CHECK(block["text"]["text"].get<std::string>().size() <= 3000);
}

TEST_CASE("A digest lists the first changes and names the first of the rest") {
  std::vector<Notice> notices;
  for (int i = 0; i < 27; ++i) {
    notices.push_back(SpikeNotice());
    notices.back().run = "run-" + std::to_string(i);
  }
  const MessageText text = TextOf(notices, 0, "en", Fit());
  CHECK(text.headline == "27 changes of incidents: 27 opened");
  REQUIRE(text.lines.size() == 11);
  CHECK(text.lines[0] == "[critical] run-0: the loss is NaN or infinite, Rank 3, 5, Step 1200");
  CHECK(text.lines[10] == "17 more, the first: [critical] run-10: the loss is NaN or infinite");
  CHECK(TextOf({notices.data(), 1}, 16, "en", Fit()).lines.back() == "16 more");
  CHECK(TextOf(notices, 100, "zh", Fit()).lines.back() == "另有 117 个，第一个：[严重] run-10：loss 为 NaN 或无穷大");
  for (const ReceiverType type :
       {ReceiverType::kFeishu, ReceiverType::kDingTalk, ReceiverType::kWeCom, ReceiverType::kSlack})
    CHECK(Has(OutgoingOf(type, notices).body, "17 more, the first: "));
  // Programs get each of them.
  CHECK(BodyOf(ReceiverType::kAlertmanager, notices).size() == 27);
  CHECK(BodyOf(ReceiverType::kWebhook, notices, 3)["notices"].size() == 27);
  CHECK(BodyOf(ReceiverType::kWebhook, notices, 3)["more"] == 3);
}

TEST_CASE("A repeated message carries a remark") {
  Notice notice = SpikeNotice();
  notice.is_repeated = true;
  for (const ReceiverType type :
       {ReceiverType::kFeishu, ReceiverType::kDingTalk, ReceiverType::kWeCom, ReceiverType::kSlack})
    CHECK(Has(OutgoingOf(type, {notice}).body, "Repeated: "));
  CHECK(BodyOf(ReceiverType::kWebhook, {notice})["notices"][0]["repeated"] == true);
}

TEST_CASE("Acknowledging is offered for an open incident alone") {
  Notice notice = SpikeNotice();
  notice.acknowledge_link = "https://watch.example.org/ack?k=1";
  CHECK(Has(OutgoingOf(ReceiverType::kSlack, {notice}).body, "ack?k=1"));
  notice.state = NoticeState::kAcknowledged;
  notice.by = "wei";
  CHECK_FALSE(Has(OutgoingOf(ReceiverType::kSlack, {notice}).body, "ack?k=1"));
  CHECK(Has(OutgoingOf(ReceiverType::kSlack, {notice}).body, "*By*\\nwei"));
}

TEST_CASE("A test message suits every receiver") {
  for (const ReceiverType type : kAllTypes) {
    const Outgoing out = OutgoingOf(type, {TestNotice(kNow)});
    CHECK(out.body.empty() == (type == ReceiverType::kEmail));
  }
}

TEST_CASE("A file without an address gives an error that does not show its content") {
  for (const char* url :
       {"", "hook-0123456789", "ftp://x/0123456789", "https://user:0123456789@x/", "https://x/ 0123456789"}) {
    const Result<Outgoing> out =
        MakeOutgoing(SettingsOf(ReceiverType::kSlack), {url, "", "", ""}, std::vector<Notice>{SpikeNotice()}, 0, kNow);
    REQUIRE_FALSE(out.ok());
    CHECK(Has(out.status().message(), "/secrets/url holds no usable address"));
    CHECK_FALSE(Has(out.status().message(), "0123456789"));
  }
}

TEST_CASE("Settings that cannot work are refused with their key") {
  const auto key_of = [](ReceiverType type, auto change) {
    ReceiverSettings settings = SettingsOf(type);
    change(&settings);
    return Check(settings).place().key;
  };
  const auto same = [](ReceiverSettings*) {};
  for (const ReceiverType type : kAllTypes) CHECK(key_of(type, same).empty());
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->url_file = ""; }) == "url_file");
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->url_file = "", s->url = "https://x/y"; }) == "url");
  CHECK(key_of(ReceiverType::kWebhook, [](auto* s) { s->url = "https://x/y"; }) == "url");
  CHECK(key_of(ReceiverType::kWebhook, [](auto* s) { s->url_file = "", s->url = "https://u:p@x/y"; }) == "url");
  CHECK(key_of(ReceiverType::kAlertmanager, [](auto* s) { s->url_file = "", s->url = "http://am:9093"; }).empty());
  CHECK(key_of(ReceiverType::kWeCom, [](auto* s) { s->secret_file = "f"; }) == "secret_file");
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->token_file = "f"; }) == "token_file");
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->from = "a@b"; }) == "from");
  CHECK(key_of(ReceiverType::kEmail, [](auto* s) { s->from = "a@b\r\nBcc: c"; }) == "from");
  CHECK(key_of(ReceiverType::kEmail, [](auto* s) { s->to = {"a"}; }) == "to");
  CHECK(key_of(ReceiverType::kEmail, [](auto* s) { s->to.clear(); }) == "to");
  CHECK(key_of(ReceiverType::kEmail, [](auto* s) { s->user = "u"; }) == "user");
  CHECK(key_of(ReceiverType::kEmail, [](auto* s) { s->user = "u", s->password_file = "f", s->starttls = false; }) ==
        "starttls");
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->language = "fr"; }) == "language");
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->name = "a b"; }) == "name");
  CHECK(key_of(ReceiverType::kSlack, [](auto* s) { s->per_minute = -1; }) == "per_minute");
  CHECK(key_of(ReceiverType::kAlertmanager, [](auto* s) { s->lasts_seconds = 1; }) == "lasts_seconds");
}

TEST_CASE("Each type of receiver has a name of its own") {
  for (const std::string& name : ReceiverTypeNames()) CHECK(NameOf(ReceiverTypeNamed(name).value()) == name);
  CHECK(ReceiverTypeNames().size() == kReceiverTypes);
  CHECK_FALSE(ReceiverTypeNamed("pager"));
}
