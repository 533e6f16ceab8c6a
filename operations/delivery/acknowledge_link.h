// Signed links to the page that acknowledges an incident, and that page.
//
// A chat client may fetch any link for a preview, so a GET only shows the incident; the button of the page posts. A
// link expires after a day, and an incident is acknowledged once. The key is a file of the state directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/notice.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

class AcknowledgeLinks {
 public:
  static constexpr double kLifeSeconds = 86400;

  explicit AcknowledgeLinks(std::string key) : key_(std::move(key)) {}
  // Reads the key of the state directory, or makes it, readable for the user only.
  static Result<AcknowledgeLinks> Open(const std::string& state_directory,
                                       base::FileSystem& files = base::FileSystem::Real());

  // PUBLIC_URL/v1/acknowledge/INCIDENT/EXPIRY/SIGNATURE.
  std::string LinkTo(const std::string& public_url, const std::string& incident, double now) const;
  // The incident of a link by the parts of its path. nullopt: it is not signed with this key, or has expired.
  std::optional<std::string> IncidentOf(const std::vector<std::string>& parts_untrusted, double now) const;

 private:
  std::string SignatureOf(const std::string& incident, const std::string& expiry) const;

  std::string key_;
};

// The page about an incident. `acknowledged_by`: not nullopt if it is acknowledged; then there is no button.
std::string AcknowledgePage(const Notice& notice, const std::optional<std::string>& acknowledged_by);
// A page with one sentence.
std::string PlainPage(std::string_view title, std::string_view sentence);
// The name in the form that the page posts; "a link in a message" without one.
std::string NameInForm(std::string_view body_untrusted);

}  // namespace stepwatch::operations::delivery
