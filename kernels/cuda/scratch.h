// Memory for partials and counters. Launches of one stream follow each other and share an area; launches of different
// streams may run at once and must not.
#pragma once

#include <array>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/packer.h"
#include "kernels/cuda/ticket_ring.h"

namespace stepwatch::kernels::cuda {

class ScratchAreas {
 public:
  static constexpr size_t kAreas = 4;

  // False: the device has not enough memory.
  bool Allocate(Driver* driver) {
    for (Area& area : areas_) {
      area.tiles = static_cast<Partial*>(driver->AllocateDevice(kTilesMax * sizeof(Partial)));
      area.groups = static_cast<Partial*>(driver->AllocateDevice(kGroupsMax * sizeof(Partial)));
      area.counters = static_cast<uint32_t*>(driver->AllocateDevice(kGroupsMax * sizeof(uint32_t)));
      if (area.tiles == nullptr || area.groups == nullptr || area.counters == nullptr) return false;
    }
    return true;
  }

  // A tensor was left half measured: its counters will never come back to zero, and the area is not lent again.
  void Retire(const Launch& launch) {
    for (Area& area : areas_) area.retired |= area.counters == launch.counters;
  }

  // Points the launch at the stream's area. False: all of them may be in use by other streams.
  bool Lend(Stream stream, const TicketRing& ring, const TicketRing::Range& tickets, Launch* launch) {
    Area* area = Find(stream, ring);
    if (area == nullptr) return false;
    area->used = true;
    area->stream = stream;
    area->tickets = tickets;
    launch->tile_partials = area->tiles;
    launch->group_partials = area->groups;
    launch->counters = area->counters;
    return true;
  }

 private:
  struct Area {
    Partial* tiles = nullptr;
    Partial* groups = nullptr;
    uint32_t* counters = nullptr;
    bool used = false;
    bool retired = false;
    Stream stream = nullptr;
    TicketRing::Range tickets;  // of the last launch, after which all earlier ones are over
  };

  Area* Find(Stream stream, const TicketRing& ring) {
    for (Area& area : areas_)
      if (!area.retired && area.used && area.stream == stream) return &area;
    for (Area& area : areas_)
      if (!area.retired && (!area.used || ring.AllWritten(area.tickets))) return &area;
    return nullptr;
  }

  std::array<Area, kAreas> areas_;
};

}  // namespace stepwatch::kernels::cuda
