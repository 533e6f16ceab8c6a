// What decides what a coordinator does next, as text: two with the same text, store and clock go on alike.
#include <sstream>

#include "controller/agree/coordinator.h"

namespace stepwatch::agree {
namespace {

void Print(std::ostream& out, const Proposal& proposal) {
  out << proposal.number << "@" << proposal.at_step << "#" << proposal.change.plan_id;
  for (const Incarnation& each : proposal.roll) out << "," << each;
}

void Print(std::ostream& out, const MemberState& member) {
  out << " member " << member.known << " " << member.applies_at;
  if (!member.pending) return;
  out << " ";
  Print(out, member.pending->proposal);
  out << " " << member.pending->is_for_us << static_cast<int>(member.pending->phase)
      << static_cast<int>(member.pending->closing.cause);
}

void Print(std::ostream& out, const LeaderState& leader) {
  out << " leader " << leader.number << " " << leader.margin << " " << leader.arriving << " " << leader.ahead << " "
      << leader.applies_at << " " << (leader.wanted ? leader.wanted->ticket : 0);
  if (!leader.ballot) return;
  out << " ";
  Print(out, leader.ballot->proposal);
  out << " " << static_cast<int>(leader.ballot->phase) << static_cast<int>(leader.ballot->deciding.cause);
  for (const bool voted : leader.ballot->has_voted) out << voted;
}

}  // namespace

std::string Coordinator::StateText() const {
  std::ostringstream out;
  out << session_ << " " << announced_ << proposal_is_in_store_ << is_enrolled_ << next_was_over_ << bell_is_deaf_;
  if (latest_) out << " latest " << latest_->session << " " << latest_->number;
  if (next_decision_) out << " next " << next_decision_->commit << next_decision_->rank;
  Print(out, member_);
  if (!is_leader()) return out.str();
  Print(out, leader_);
  out << " roll " << roll_.number;
  for (size_t rank = 0; rank < roll_.incarnations.size(); ++rank)
    out << "," << roll_.incarnations[rank] << roll_.is_read[rank];
  return out.str();
}

}  // namespace stepwatch::agree
