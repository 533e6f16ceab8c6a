#include "controller/control_socket/pulse_client.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/json/members.h"

namespace stepwatch::control_socket {
namespace {

constexpr size_t kDescriptors = 2;
constexpr uint64_t kPulseReplyBytesMax = uint64_t{64} << 10;

uint32_t GenerationIn(const std::string& body_untrusted) {
  const Result<Json> json = json::Parse(body_untrusted);
  if (!json.ok()) return 0;
  return static_cast<uint32_t>(json::Count(json.value(), "names_generation") & vocabulary::kGenerationMask);
}

}  // namespace

PulseView::PulseView(base::Mapping page, base::Mapping names, uint32_t names_generation)
    : page_(std::move(page)), names_generation_(names_generation) {
  if (names.valid()) names_ = vocabulary::ReadPulseNames({static_cast<const char*>(names.data()), names.bytes()});
}

Result<vocabulary::Pulse> PulseView::Read() const {
  return vocabulary::ReadPulse(page(), page_.bytes());
}

std::vector<vocabulary::LastWord> PulseView::LastWords() const {
  return vocabulary::ReadLastWords(page());
}

std::string PulseView::ModuleName(const vocabulary::Pulse& pulse) const {
  if (!pulse.module || pulse.module->generation != (names_generation_ & vocabulary::kGenerationMask)) return "";
  return pulse.module->module < names_.size() ? names_[pulse.module->module] : "";
}

bool PulseView::IsOutdated() const {
  return page_.bytes() >= sizeof(vocabulary::PulsePage) &&
         page().names_generation.load(std::memory_order_acquire) != names_generation_;
}

Result<PulseView> FetchPulse(const std::string& socket_path, std::optional<uid_t> trusted,
                             std::chrono::milliseconds time) {
  Result<http::DescribedReply> asked =
      http::Client(socket_path, trusted)
          .RequestDescriptors({"GET", "/v1/pulse", "", "", ""}, kDescriptors, kPulseReplyBytesMax, time);
  if (!asked.ok()) return asked.status();
  const http::Reply& reply = asked.value().reply;
  std::vector<base::UniqueFd>& descriptors = asked.value().descriptors;
  if (reply.status == 404)
    return Status(StatusCode::kNotFound, socket_path +
                                             " has no pulse: its process could not allocate shared memory, or "
                                             "runs an earlier release");
  if (reply.status != 200)
    return Status(StatusCode::kUnavailable,
                  socket_path + " did not return a pulse: it answered with status " + std::to_string(reply.status));
  if (descriptors.empty())
    return Status(StatusCode::kInvalid, socket_path + " has answered without the file descriptor of a pulse");
  Result<base::Mapping> page =
      base::MapSealed(descriptors[0].get(), sizeof(vocabulary::PulsePage), vocabulary::kPulseBytesMax);
  if (!page.ok()) return page.status();
  base::Mapping names;
  if (descriptors.size() > 1) {
    Result<base::Mapping> mapped = base::MapSealed(descriptors[1].get(), 0, vocabulary::kPulseNamesBytesMax);
    if (!mapped.ok()) return mapped.status();
    names = std::move(mapped).value();
  }
  PulseView view(std::move(page).value(), std::move(names), GenerationIn(reply.body));
  if (const Result<vocabulary::Pulse> first = view.Read(); !first.ok()) return first.status();
  return view;
}

}  // namespace stepwatch::control_socket
