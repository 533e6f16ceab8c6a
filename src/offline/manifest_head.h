// Facts of the run itself in a manifest.json: plans, segments and sites are skipped, in bounded memory.
#pragma once

#include "src/base/file_system.h"
#include "src/json/json.h"

namespace stepwatch::offline {

// Reads an open file incrementally. Null: not JSON, or nested too deeply.
Json ReadManifestHead(int fd, base::FileSystem& files);

}  // namespace stepwatch::offline
