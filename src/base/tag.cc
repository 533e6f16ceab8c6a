#include "stepwatch/tag.h"

namespace stepwatch {

bool HasMicroStep(const RecordLayout& layout, SiteKind kind) {
  return kind == SiteKind::kActv || kind == SiteKind::kActvGrad ||
         (kind == SiteKind::kGradUnreduced && layout.micro_step_in_grad_unreduced);
}

const char* SiteKindTask(SiteKind kind) {
  switch (kind) {
    case SiteKind::kGradUnreduced: return "acc_grad";
    case SiteKind::kGradReduced: return "post_grad";
    case SiteKind::kMgDirection: return "mg_direction";
    default: return SiteKindName(kind);
  }
}

std::string RecordName(const PlannedSite& site, const Record& record) {
  std::string name = site.name;
  if (record.element != kNoElement) name.append("_").append(std::to_string(record.element));
  if (record.call > 0) name.append("@").append(std::to_string(record.call));
  return name;
}

std::string RecordTag(const PlannedSite& site, bool has_micro_step, const Record& record, int rank) {
  std::string tag = std::to_string(site.chunk);
  tag.append(":").append(RecordName(site, record));
  if (has_micro_step) tag.append(":").append(std::to_string(record.micro_step));
  tag.append("/rank").append(std::to_string(rank)).append("/").append(SiteKindTask(site.kind));
  return tag;
}

std::string RecordTag(const RecordLayout& layout, const Record& record, int rank) {
  const PlannedSite& site = layout.sites[record.site];
  return RecordTag(site, HasMicroStep(layout, site.kind), record, rank);
}

}  // namespace stepwatch
