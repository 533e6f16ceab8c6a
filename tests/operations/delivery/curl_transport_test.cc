// The transport against servers that answer well, badly, slowly, or not at all.
#include <chrono>
#include <future>
#include <thread>

#include "operations/delivery/transport.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/operations/delivery/fake_receiver.h"
#include "tests/operations/delivery/notices.h"
#include "tests/temporary_directory.h"

using namespace stepwatch;
using namespace stepwatch::operations;
using namespace stepwatch::operations::delivery;
using stepwatch::testing::Answering;
using stepwatch::testing::FakeCertificate;
using stepwatch::testing::FakeReceiver;
using stepwatch::testing::Has;
using stepwatch::testing::MakeCertificate;
using stepwatch::testing::TemporaryDirectory;
using stepwatch::testing::WriteInPlace;

namespace {

using namespace std::chrono_literals;

constexpr const char* kPath = "/hook/0123456789abcdef";

std::future<Reply> SendTo(Transport* transport, Outgoing outgoing) {
  auto promise = std::make_shared<std::promise<Reply>>();
  std::future<Reply> reply = promise->get_future();
  transport->Send(std::move(outgoing), [promise](Reply value) { promise->set_value(std::move(value)); });
  return reply;
}

Reply ReplyTo(Outgoing outgoing) {
  const std::unique_ptr<Transport> transport = MakeCurlTransport();
  std::future<Reply> reply = SendTo(transport.get(), std::move(outgoing));
  REQUIRE(reply.wait_for(30s) == std::future_status::ready);
  return reply.get();
}

// A message for a bot whose address, secret and token must stay secret.
Outgoing MessageFor(const std::string& origin) {
  ReceiverSettings settings;
  settings.name = "team";
  settings.type = ReceiverType::kWebhook;
  settings.url_file = "/secrets/url";
  Notice notice = SpikeNotice();
  notice.acknowledge_link = "https://watch.example.org/acknowledge/signed-for-a-day";
  return MakeOutgoing(settings, {origin + kPath + "?key=fedcba9876543210", "demo-secret", "token-of-team", ""},
                      std::vector<Notice>{notice}, 0, 1'790'000'000)
      .value();
}

void CheckHasNoSecret(const Reply& reply) {
  for (const char* secret : {"0123456789abcdef", "fedcba9876543210", "demo-secret", "token-of-team", "pass-of-mail",
                             "signed-for-a-day", "sha256="}) {
    CHECK_FALSE(Has(reply.error, secret));
    CHECK_FALSE(Has(reply.body, secret));
    for (const ReceiverType type : {ReceiverType::kWebhook, ReceiverType::kFeishu, ReceiverType::kSlack})
      CHECK_FALSE(Has(Judge(type, reply).reason, secret));
  }
}

}  // namespace

TEST_CASE("A request arrives as it was made, and the reply is returned") {
  std::promise<std::string> request;
  const FakeReceiver server([&request](FakeReceiver::Peer* peer) {
    request.set_value(peer->ReadRequest());
    peer->Write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    peer->WaitForEnd();
  });
  Outgoing out = MessageFor("http://" + server.host());
  const std::string body = out.body;
  const Reply reply = ReplyTo(std::move(out));
  CHECK(reply.status == 200);
  CHECK(reply.body == "ok");
  CHECK(reply.error.empty());
  const std::string text = request.get_future().get();
  CHECK(text.starts_with("POST " + std::string(kPath) + "?key=fedcba9876543210 HTTP/1.1\r\n"));
  CHECK(Has(text, "Content-Type: application/json; charset=utf-8\r\n"));
  CHECK(Has(text, "Authorization: Bearer token-of-team\r\n"));
  CHECK_FALSE(Has(text, "Expect:"));
  CHECK(text.ends_with("\r\n\r\n" + body));
}

TEST_CASE("Each status is returned with its body and its pause") {
  for (const int status : {200, 202, 400, 401, 429, 500}) {
    const FakeReceiver server(Answering(std::to_string(status) + " X", "because", "Retry-After: 17\r\n"));
    const Reply reply = ReplyTo(MessageFor("http://" + server.host()));
    CHECK(reply.status == status);
    CHECK(reply.body == "because");
    CHECK(reply.error.empty());
    CHECK(reply.retry_after == 17);
  }
}

TEST_CASE("A redirect is not followed") {
  const FakeReceiver other(Answering("200 OK"));
  const FakeReceiver server(Answering("302 Found", "", "Location: http://" + other.host() + "/\r\n"));
  const Reply reply = ReplyTo(MessageFor("http://" + server.host()));
  CHECK(reply.status == 302);
  CHECK(other.connections() == 0);
  CHECK(Judge(ReceiverType::kWebhook, reply).verdict == Verdict::kRejected);
}

TEST_CASE("A server that is slow, silent, gone or resets gives an error with the reason") {
  const auto error_of = [](FakeReceiver::Behaviour behaviour) {
    const FakeReceiver server(std::move(behaviour));
    Outgoing out = MessageFor("http://" + server.host());
    out.time_max = 300ms;
    const Reply reply = ReplyTo(std::move(out));
    CheckHasNoSecret(reply);
    CHECK(Judge(ReceiverType::kWebhook, reply).verdict == Verdict::kRetry);
    CHECK(Has(reply.error, server.host()));
    return reply.error;
  };
  CHECK(Has(error_of([](FakeReceiver::Peer* peer) { peer->WaitForEnd(); }), "timed out"));
  CHECK(Has(error_of([](FakeReceiver::Peer* peer) {
              (void)peer->ReadRequest();
              peer->Write("HTTP/1.1 200 OK\r\n");
              while (!peer->is_ending() && peer->Write("X: y\r\n")) std::this_thread::sleep_for(20ms);
            }),
            "timed out"));
  CHECK_FALSE(error_of([](FakeReceiver::Peer* peer) {
                (void)peer->ReadRequest();
                peer->Reset();
              }).empty());
  CHECK_FALSE(error_of([](FakeReceiver::Peer*) {}).empty());
  CHECK_FALSE(error_of([](FakeReceiver::Peer* peer) {
                (void)peer->ReadRequest();
                peer->Write("no HTTP at all\r\n\r\n");
              }).empty());
  std::string gone;
  {
    const FakeReceiver server(Answering("200 OK"));
    gone = server.host();
  }
  const Reply reply = ReplyTo(MessageFor("http://" + gone));
  CHECK(Has(reply.error, "connect"));
  CheckHasNoSecret(reply);
}

TEST_CASE("Memory for an endless answer is bounded") {
  const FakeReceiver server([](FakeReceiver::Peer* peer) {
    (void)peer->ReadRequest();
    peer->Write("HTTP/1.1 200 OK\r\n\r\n");
    while (!peer->is_ending() && peer->Write(std::string(65536, 'x'))) {
    }
  });
  Outgoing out = MessageFor("http://" + server.host());
  const size_t bytes_max = out.reply_bytes_max;
  const Reply reply = ReplyTo(std::move(out));
  CHECK(reply.status == 200);
  CHECK(reply.body.size() == bytes_max);
  CHECK(reply.error.empty());

  const FakeReceiver headers([](FakeReceiver::Peer* peer) {
    (void)peer->ReadRequest();
    peer->Write("HTTP/1.1 200 OK\r\n");
    while (!peer->is_ending() && peer->Write("X: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  CHECK_FALSE(ReplyTo(MessageFor("http://" + headers.host())).error.empty());
}

TEST_CASE("No secret is in a reply, an error or a reason, even if the server repeats them") {
  const FakeReceiver echo([](FakeReceiver::Peer* peer) {
    const std::string request = peer->ReadRequest();
    peer->Write("HTTP/1.1 500 " + request.substr(0, request.find('\r')) + "\r\nConnection: close\r\n\r\n" + request +
                " demo-secret");
  });
  const Reply reply = ReplyTo(MessageFor("http://" + echo.host()));
  CHECK(reply.status == 500);
  CHECK(Has(reply.body, "***"));
  CheckHasNoSecret(reply);
}

TEST_CASE("A transport that is destroyed ends its requests with an error") {
  FakeReceiver server([](FakeReceiver::Peer* peer) { peer->WaitForEnd(); });
  std::vector<std::future<Reply>> replies;
  {
    const std::unique_ptr<Transport> transport = MakeCurlTransport();
    for (int i = 0; i < 40; ++i) replies.push_back(SendTo(transport.get(), MessageFor("http://" + server.host())));
    CHECK(testing::Eventually([&server] { return server.connections() > 0; }));
  }
  for (std::future<Reply>& reply : replies) {
    REQUIRE(reply.wait_for(0s) == std::future_status::ready);
    CHECK(Has(reply.get().error, "ends"));
  }
}

TEST_CASE("Many requests are answered, some at a time") {
  const FakeReceiver server(Answering("200 OK", "ok"));
  const std::unique_ptr<Transport> transport = MakeCurlTransport();
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 100; ++i) replies.push_back(SendTo(transport.get(), MessageFor("http://" + server.host())));
  for (std::future<Reply>& reply : replies) {
    REQUIRE(reply.wait_for(30s) == std::future_status::ready);
    CHECK(reply.get().status == 200);
  }
}

TEST_CASE("A certificate is trusted only if it is valid, known and for the name") {
  const TemporaryDirectory directory;
  const auto reply_of = [&directory](const std::string& name, long from_s, long to_s, bool is_known) {
    const FakeCertificate certificate = MakeCertificate(name, from_s, to_s);
    const FakeReceiver server(Answering("200 OK", "ok"), &certificate);
    Outgoing out = MessageFor("https://" + server.host());
    if (is_known) {
      WriteInPlace(directory / "ca.pem", certificate.certificate_pem);
      out.ca_file = directory / "ca.pem";
    }
    Reply reply = ReplyTo(std::move(out));
    CheckHasNoSecret(reply);
    return reply;
  };
  CHECK(reply_of("IP:127.0.0.1", -60, 3600, true).status == 200);
  const Reply expired = reply_of("IP:127.0.0.1", -7200, -3600, true);
  CHECK(expired.status == 0);
  CHECK(Has(expired.error, "certificate has expired"));
  CHECK(Judge(ReceiverType::kWebhook, expired).verdict == Verdict::kRetry);
  CHECK(Has(reply_of("IP:127.0.0.1", -60, 3600, false).error, "self-signed certificate"));
  CHECK(Has(reply_of("DNS:other.example.org", -60, 3600, true).error, "subject name"));
}

namespace {

// Takes one mail and keeps it. `replies` replace those of commands: "RCPT" gives "550 no such user".
using MailReplies = std::vector<std::pair<std::string, std::string>>;

struct FakeMailServer {
  explicit FakeMailServer(MailReplies other, const FakeCertificate* certificate = nullptr)
      : replies(std::move(other)), server([this](FakeReceiver::Peer* peer) { Serve(peer); }, certificate) {}

  void Serve(FakeReceiver::Peer* peer) {
    peer->Write("220 mail.example.org\r\n");
    while (true) {
      const std::string line = peer->ReadUntil("\r\n");
      if (line.empty()) return;
      const base::MutexLock lock(&mutex);
      commands += line;
      std::string reply = line.starts_with("EHLO") ? "250-mail.example.org\r\n250 AUTH PLAIN\r\n" : "250 fine\r\n";
      if (line.starts_with("AUTH")) reply = "334 \r\n";
      // base64("\0stepwatch\0pass-of-mail")
      if (line == "AHN0ZXB3YXRjaABwYXNzLW9mLW1haWw=\r\n") reply = "235 welcome\r\n";
      if (line.starts_with("DATA")) reply = "354 go on\r\n";
      if (line.starts_with("QUIT")) reply = "221 bye\r\n";
      for (const auto& [command, text] : replies)
        if (Has(line, command)) reply = text + "\r\n";
      peer->Write(reply);
      if (reply.starts_with("354")) {
        mail = peer->ReadUntil("\r\n.\r\n");
        peer->Write("250 taken\r\n");
      }
      if (line.starts_with("QUIT")) return;
    }
  }

  const MailReplies replies;
  base::Mutex mutex;
  std::string commands STEPWATCH_GUARDED_BY(mutex), mail STEPWATCH_GUARDED_BY(mutex);
  FakeReceiver server;
};

Outgoing MailFor(const std::string& url, bool has_password = false) {
  ReceiverSettings settings;
  settings.name = "mail";
  settings.type = ReceiverType::kEmail;
  settings.url = url;
  settings.from = "stepwatch@example.org";
  settings.to = {"a@example.org", "b@example.org"};
  settings.starttls = false;
  Secrets secrets;
  if (has_password) {
    settings.user = "stepwatch";
    settings.password_file = "/secrets/password";
    secrets.password = "pass-of-mail";
  }
  return MakeOutgoing(settings, secrets, std::vector<Notice>{SpikeNotice()}, 0, 1'790'000'000).value();
}

}  // namespace

TEST_CASE("A mail reaches each of its receivers") {
  FakeMailServer server(MailReplies{});
  Outgoing out = MailFor("smtp://" + server.server.host());
  const std::string text = out.mail->text;
  const Reply reply = ReplyTo(std::move(out));
  CHECK(reply.error.empty());
  CHECK(Judge(ReceiverType::kEmail, reply).verdict == Verdict::kSent);
  const base::MutexLock lock(&server.mutex);
  CHECK(Has(server.commands, "MAIL FROM:<stepwatch@example.org>"));
  CHECK(Has(server.commands, "RCPT TO:<a@example.org>"));
  CHECK(Has(server.commands, "RCPT TO:<b@example.org>"));
  CHECK(server.mail == text + ".\r\n");
}

TEST_CASE("A wrong address does not keep a mail from the others") {
  FakeMailServer server(MailReplies{{"RCPT TO:<a@", "550 no such user"}});
  CHECK(Judge(ReceiverType::kEmail, ReplyTo(MailFor("smtp://" + server.server.host()))).verdict == Verdict::kSent);
}

TEST_CASE("A mail that its server refuses or postpones is judged by the code") {
  FakeMailServer refusing(MailReplies{{"RCPT", "550 no such user"}});
  const Judgement refused = Judge(ReceiverType::kEmail, ReplyTo(MailFor("smtp://" + refusing.server.host())));
  CHECK(refused.verdict == Verdict::kRejected);
  CHECK(Has(refused.reason, "550"));
  FakeMailServer busy(MailReplies{{"MAIL", "451 later"}});
  CHECK(Judge(ReceiverType::kEmail, ReplyTo(MailFor("smtp://" + busy.server.host()))).verdict == Verdict::kRetry);
}

TEST_CASE("A mail is not sent without the TLS that is required") {
  FakeMailServer server(MailReplies{});
  Outgoing out = MailFor("smtp://" + server.server.host());
  out.starttls = true;
  const Reply reply = ReplyTo(std::move(out));
  CHECK(Judge(ReceiverType::kEmail, reply).verdict != Verdict::kSent);
  CHECK_FALSE(reply.error.empty());
  const base::MutexLock lock(&server.mutex);
  CHECK(server.mail.empty());
}

TEST_CASE("A mail server over TLS gets the password, and no error shows it") {
  const TemporaryDirectory directory;
  const FakeCertificate certificate = MakeCertificate("IP:127.0.0.1", -60, 3600);
  WriteInPlace(directory / "ca.pem", certificate.certificate_pem);
  const auto reply_of = [&](const MailReplies& replies) {
    FakeMailServer server(replies, &certificate);
    Outgoing out = MailFor("smtps://" + server.server.host(), true);
    out.ca_file = directory / "ca.pem";
    Reply reply = ReplyTo(std::move(out));
    const base::MutexLock lock(&server.mutex);
    CHECK(Has(server.commands, "AUTH PLAIN"));
    CheckHasNoSecret(reply);
    return Judge(ReceiverType::kEmail, reply);
  };
  CHECK(reply_of({}).verdict == Verdict::kSent);
  const Judgement refused = reply_of({{"AHN0", "535 wrong password pass-of-mail"}});
  CHECK(refused.verdict == Verdict::kRejected);
  CHECK(Has(refused.reason, "535"));
}
