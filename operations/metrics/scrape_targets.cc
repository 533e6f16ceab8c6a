#include "operations/metrics/scrape_targets.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/json/json.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kAddressBytesMax = 300;
constexpr std::string_view kKind = "__meta_stepwatch_kind";

bool IsOfAddress(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         std::string_view(".:-[]").find(byte) != std::string_view::npos;
}

// HOST:PORT that a scrape can reach; nullopt if the text is not an address.
std::optional<std::string> ReachableAddress(const std::string& text_untrusted, const MachineNames& names) {
  const size_t colon = text_untrusted.rfind(':');
  if (colon == std::string::npos || text_untrusted.size() > kAddressBytesMax) return std::nullopt;
  if (!std::all_of(text_untrusted.begin(), text_untrusted.end(), IsOfAddress)) return std::nullopt;
  const std::string host = text_untrusted.substr(0, colon);
  const auto port = base::ParseNumber<uint16_t>(std::string_view(text_untrusted).substr(colon + 1));
  if (host.empty() || !port || *port == 0) return std::nullopt;
  if (host != "0.0.0.0" && host != "[::]") return text_untrusted;
  return (names.listens_as.empty() ? names.host : names.listens_as) + ":" + std::to_string(*port);
}

}  // namespace

std::vector<ScrapeTarget> OwnTargets(const std::string& tcp_address, const MachineNames& names) {
  const std::optional<std::string> address = ReachableAddress(tcp_address, names);
  if (!address) return {};
  return {{*address, {{std::string(kKind), "stepwatchd"}, {"host", names.host}}}};
}

std::vector<ScrapeTarget> JobTargets(const JobPages& status, const MachineNames& names) {
  std::vector<ScrapeTarget> targets;
  for (const ExpositionPage& page : status.pages) {
    const Result<Json> parsed = json::Parse(page.text_untrusted);
    if (!parsed.ok() || !parsed.value().is_object()) continue;
    const auto member = parsed.value().find("tcp_address");
    if (member == parsed.value().end() || !member->is_string()) continue;
    const std::optional<std::string> address = ReachableAddress(member->get<std::string>(), names);
    if (!address) continue;
    ScrapeTarget target{*address, {{std::string(kKind), "job"}, {"host", names.host}}};
    for (const ExpositionLabel& label : page.labels)
      if (label.name != "job") target.labels.emplace_back(label.name, label.value);
    targets.push_back(std::move(target));
  }
  std::sort(targets.begin(), targets.end(), [](const ScrapeTarget& a, const ScrapeTarget& b) {
    return std::tie(a.address, a.labels) < std::tie(b.address, b.labels);
  });
  return targets;
}

std::string TargetsJson(const std::vector<ScrapeTarget>& targets) {
  Json list = Json::array();
  for (const ScrapeTarget& target : targets) {
    Json labels = Json::object();
    for (const auto& [name, value] : target.labels) labels[name] = value;
    list.push_back({{"targets", Json::array({target.address})}, {"labels", std::move(labels)}});
  }
  return json::Dump(list) + "\n";
}

struct TargetsFile::Shared {
  std::string written;
  bool is_writing = false;
  bool is_in_trouble = false;
  std::function<void(const Status&)> on_trouble;
};

TargetsFile::TargetsFile(boost::asio::io_context& loop, std::string path, std::function<void(const Status&)> on_trouble)
    : path_(std::move(path)),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      shared_(std::make_shared<Shared>()) {
  shared_->on_trouble = std::move(on_trouble);
}

TargetsFile::~TargetsFile() {
  mailbox_->Close();
}

void TargetsFile::Write(std::string text) {
  if (shared_->is_writing || text == shared_->written) return;
  shared_->is_writing = thread_.Post([path = path_, text = std::move(text), mailbox = mailbox_, shared = shared_] {
    const Status status = base::ReplaceFile(path, text);
    mailbox->Post([status, text, shared] {
      shared->is_writing = false;
      if (status.ok()) shared->written = text;
      if (!status.ok() && !shared->is_in_trouble) shared->on_trouble(status);
      shared->is_in_trouble = !status.ok();
    });
  });
}

}  // namespace stepwatch::operations
