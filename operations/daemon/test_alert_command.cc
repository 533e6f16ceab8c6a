#include "operations/daemon/test_alert_command.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <vector>

#include "operations/daemon/check_config_command.h"
#include "operations/delivery/receiver.h"
#include "operations/delivery/secrets.h"
#include "operations/delivery/translate.h"
#include "operations/delivery/transport.h"
#include "src/base/file_system.h"
#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

using delivery::ReceiverSettings;

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

delivery::Judgement SendTest(const ReceiverSettings& receiver) {
  const auto failed = [](const Status& status) {
    return delivery::Judgement{delivery::Verdict::kRejected, status.message(), {}};
  };
  const Result<delivery::Secrets> secrets = delivery::ReadSecrets(receiver, base::FileSystem::Real());
  if (!secrets.ok()) return failed(secrets.status());
  const double now = WallSeconds();
  const std::vector<delivery::Notice> notices = {delivery::TestNotice(now)};
  Result<delivery::Outgoing> outgoing = delivery::MakeOutgoing(receiver, secrets.value(), notices, 0, now);
  if (!outgoing.ok()) return failed(outgoing.status());
  std::promise<delivery::Reply> reply;
  const std::unique_ptr<delivery::Transport> transport = delivery::MakeCurlTransport();
  transport->Send(std::move(outgoing).value(), [&reply](delivery::Reply given) { reply.set_value(std::move(given)); });
  return Judge(receiver.type, reply.get_future().get());
}

int Fail(const std::string& why) {
  base::Print(stderr, "stepwatchd: %s\n", why.c_str());
  return 2;
}

}  // namespace

int RunTestAlert(const TestAlertArguments& arguments) {
  (void)std::signal(SIGPIPE, SIG_IGN);
  if (arguments.config.empty()) return Fail("receivers are in the settings: name their file with --config");
  const Result<ParsedDaemonSettings> parsed = ReadSettingsFile(arguments.config);
  if (!parsed.ok())
    return Fail(PlacedLine(arguments.config, "error", parsed.status().place(), parsed.status().message()));
  const std::vector<ReceiverSettings>& receivers = parsed.value().settings.delivery.receivers;
  const auto found = std::find_if(receivers.begin(), receivers.end(),
                                  [&](const ReceiverSettings& each) { return each.name == arguments.receiver; });
  if (found == receivers.end()) {
    std::vector<std::string> names;
    for (const ReceiverSettings& each : receivers) names.push_back(each.name);
    return Fail(
        "no receiver has the name " + base::Printable(arguments.receiver) +
        (names.empty() ? "; the settings have no receivers" : "; the receivers are " + base::Joined(names, ", ")));
  }
  const delivery::Judgement judgement = SendTest(*found);
  if (judgement.verdict == delivery::Verdict::kSent) {
    base::Print(stdout, "receiver %s (%s) has accepted the test message\n", found->name.c_str(),
                std::string(NameOf(found->type)).c_str());
    return 0;
  }
  base::Print(stderr, "stepwatchd: receiver %s has not accepted the test message: %s\n", found->name.c_str(),
              judgement.reason.c_str());
  return 1;
}

}  // namespace stepwatch::operations
