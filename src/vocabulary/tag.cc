#include "stepwatch/tag.h"

namespace stepwatch {
namespace {

// "all_reduce.post", element 0: "all_reduce/rank3/post_0".
std::string OperatorTag(const PlannedSite& site, const Record& record, int rank) {
  std::string tag = RecordName(site, record);
  const size_t side = site.name.rfind('.');
  if (side == std::string::npos) return tag;
  return tag.replace(side, 1, "/rank" + std::to_string(rank) + "/");
}

}  // namespace

std::string RecordName(const PlannedSite& site, const Record& record) {
  std::string name = site.name;
  if (record.element != kNoElement) name.append("_").append(std::to_string(record.element));
  if (record.call > 0) name.append("@").append(std::to_string(record.call));
  return name;
}

std::string RecordTag(const PlannedSite& site, bool has_micro_step, const Record& record, int rank) {
  if (OwnerOf(site.kind) == SiteOwner::kOperator) return OperatorTag(site, record, rank);
  std::string tag = std::to_string(site.chunk);
  tag.append(":").append(RecordName(site, record));
  if (has_micro_step) tag.append(":").append(std::to_string(record.micro_step));
  tag.append("/rank").append(std::to_string(rank)).append("/").append(TraitsOf(site.kind).task);
  return tag;
}

std::string RecordTag(const RecordLayout& layout, const Record& record, int rank) {
  const PlannedSite& site = layout.sites[record.site];
  return RecordTag(site, HasMicroStep(layout, site.kind), record, rank);
}

}  // namespace stepwatch
