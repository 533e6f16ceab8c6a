// Reads the secrets of a receiver from their files.
#pragma once

#include "operations/delivery/receiver.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

inline constexpr size_t kSecretBytesMax = 4096;

// Each file holds one line; space around it is cut. Blocks. An error names the file, never its content.
Result<Secrets> ReadSecrets(const ReceiverSettings& settings, base::FileSystem& files);

}  // namespace stepwatch::operations::delivery
