// The mode of a run: facts of its options that never change.
#pragma once

#include "stepwatch/options.h"

namespace stepwatch::reload {

struct RunMode {
  RunMode(const Options& options, bool is_dynamic)
      : dynamic(is_dynamic),
        shares_store(options.store && options.world_size > 1),
        reads_the_file(!shares_store || options.rank == 0) {}

  // An edit takes effect once the ranks have agreed on it.
  bool agrees() const { return dynamic && shares_store; }

  bool dynamic;
  bool shares_store;    // with the other ranks of the job
  bool reads_the_file;  // and writes it; false: rank 0 does
};

}  // namespace stepwatch::reload
