// A plan's layout on a model that was indexed anew, for the rest of a step that the plan has begun.
#pragma once

#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

// The same sites in the same order, each with its owner's place in `now`; an owner that is no longer there is kNoOwner.
RecordLayout MovedLayout(const RecordLayout& layout, const SiteIndex& was, const SiteIndex& now);

}  // namespace stepwatch::plan
