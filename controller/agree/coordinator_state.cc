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
      << static_cast<int>(member.pending->closing.cause) << "s" << member.pending->closing.step;
}

void Print(std::ostream& out, const LeaderState& leader) {
  out << " leader " << leader.number << " " << leader.margin << " " << leader.arriving << " " << leader.ahead << " "
      << leader.applies_at << " " << (leader.wanted ? leader.wanted->ticket : 0);
  if (leader.later)
    out << " later " << leader.later->ticket << "@" << leader.later->not_before << "+" << leader.pace.steps;
  if (!leader.ballot) return;
  out << " ";
  Print(out, leader.ballot->proposal);
  out << " " << static_cast<int>(leader.ballot->phase) << static_cast<int>(leader.ballot->deciding.cause);
  for (const bool voted : leader.ballot->has_voted) out << voted;
}

}  // namespace

std::string Coordinator::StateText() const {
  std::ostringstream out;
  const Time now = around_.now();
  const auto print = [&](const StoreClient::Request& request) {
    const bool is_late = now - request.asked >= settings_.answer_time;
    out << (request.is_out ? (is_late ? "late" : "out") : "") << (request.hurries ? "!" : "")
        << (now < request.not_before ? "-" : ".");
  };
  out << session_ << " " << announced_ << proposal_is_in_store_ << is_enrolled_ << next_was_over_ << bell_is_deaf_
      << had_bell_ << has_rung_;
  if (latest_) out << " latest " << latest_->session << " " << latest_->number;
  if (next_decision_) out << " next " << next_decision_->commit << next_decision_->rank;
  Print(out, member_);
  for (const StoreClient::Request* request :
       {&read_latest_, &read_proposal_, &read_decision_, &write_vote_, &read_outcome_, &close_, &enrol_, &listen_})
    print(*request);
  if (!is_leader()) return out.str();
  Print(out, leader_);
  if (leader_.ballot) out << (now - leader_.ballot->opened > leader_.vote_time ? " long" : "");
  out << " roll " << roll_.number;
  for (size_t rank = 0; rank < roll_.incarnations.size(); ++rank)
    out << "," << roll_.incarnations[rank] << roll_.is_read[rank];
  out << " rings " << rings_wanted_ << "-" << rings_done_;
  for (const StoreClient::Request* request : {&decide_, &announce_, &publish_, &clear_, &ring_}) print(*request);
  for (const StoreClient::Request& request : read_votes_) print(request);
  for (const StoreClient::Request& request : read_roll_) print(request);
  return out.str();
}

}  // namespace stepwatch::agree
