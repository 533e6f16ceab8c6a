// Looks at the files that write-backs have displaced, from a timer of the loop, until their grace is over.
//
// Everything runs on the loop thread. What a look throws is caught: the next look comes in any case.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/writeback/displaced_file.h"
#include "controller/writeback/write_back.h"

namespace stepwatch::reload {

class DisplacedWatch {
 public:
  using Finding = writeback::DisplacedFile::Finding;

  // `tell` hears of each late edit.
  DisplacedWatch(boost::asio::io_context& loop, std::function<void(const Finding&)> tell);
  ~DisplacedWatch();

  // Takes over what a killed process, or a write-back that threw, left beside the config. `files` outlives this
  // object.
  void TakeOver(const std::string& config_path, base::FileSystem& files);
  // Takes `displaced` out of a result.
  void Add(writeback::WriteBackResult* result);
  void LookNow();
  // One more look, which waits for nobody; then the files are gone, or left for the next process.
  void Stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // queued handlers hold it weakly
};

}  // namespace stepwatch::reload
