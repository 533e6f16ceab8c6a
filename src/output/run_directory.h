// Names and directories of a run's output.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::output {

// 32 hex digits from the operating system's random source.
std::string RandomRunId();

// The part of the run id shared by all directories of a run: its first 8 characters if those are hex digits, otherwise
// the first 8 hex digits of its SHA-256.
std::string ShortId(const std::string& run_id);

// "{Mon}{DD}_{HH}-{MM}-{SS}-rank{R}-{id8}", local time, English months in any locale.
std::string RunDirectoryName(std::time_t now, int rank, const std::string& id8);

// append_output: the directory of `rank` under `base` whose time lies in [from, to] ("Dec03_21-34-40"); names carry no
// year, so a range that ends before it begins wraps around New Year. The last modified one of several.
std::optional<std::string> FindRunDirectory(const std::string& base, int rank, const std::string& from,
                                            const std::string& to, base::FileSystem& files = base::FileSystem::Real());

// `configured`, or MONITOR_OUTPUT_DIR if it is empty, or else ./monitor_output.
std::string OutputBase(const std::string& configured);

}  // namespace stepwatch::output
