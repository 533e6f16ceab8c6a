// Adapts a plan's layout to a model that was indexed again, for the rest of a step that the plan has begun.
#pragma once

#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

// The same sites in the same order, each with its owner's position in `now`; kNoOwner if the owner is gone.
RecordLayout MovedLayout(const RecordLayout& layout, const SiteIndex& was, const SiteIndex& now);

}  // namespace stepwatch::plan
