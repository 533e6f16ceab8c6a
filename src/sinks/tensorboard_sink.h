// Records as scalars and heat maps as images in TensorBoard's event files, written as docs/tensorboard.md says.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/sink.h"

namespace stepwatch::sinks {

struct TensorBoardOptions {
  std::string directory;  // made at the first scalar or image
  int rank = 0;           // a part of the tags
  // Seconds since 1970; null: the system's clock.
  std::function<double()> wall_clock;
};

// A sink that writes one event file: a scalar for each statistic that is a number, with the tag "{RecordTag}_{op}". A
// missing tensor has no scalars. A column of a heat map gives the image of all columns so far, those of earlier plans
// included, with the tag of its site. Drain thread only.
//
// A step is in the file whole or not at all; a failed append is cut back, reported, and repeated by the next Write.
std::unique_ptr<Sink> MakeTensorBoardSink(TensorBoardOptions options,
                                          base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::sinks
