// The state of a coordinator as a text, for tests that visit each state once.
#pragma once

#include <sstream>
#include <string>

#include "controller/agree/coordinator.h"

namespace stepwatch::agree {

struct CoordinatorState {
  static void Print(std::ostream& out, const Proposal& proposal) {
    out << proposal.number << "@" << proposal.at_step << "#" << proposal.change.plan_id;
    for (const Incarnation& each : proposal.roll) out << "," << each;
  }

  static void Print(std::ostream& out, const MemberState& member) {
    out << " member " << member.known << " " << member.applies_at;
    if (!member.pending) return;
    out << " ";
    Print(out, member.pending->proposal);
    out << " " << member.pending->is_for_us << static_cast<int>(member.pending->phase)
        << static_cast<int>(member.pending->closing.cause) << "s" << member.pending->closing.step;
  }

  static void Print(std::ostream& out, const LeaderState& leader) {
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

  // Coordinators with the same text, store and clock behave alike from here on.
  static std::string TextOf(const Coordinator& rank) {
    std::ostringstream out;
    const Time now = rank.dependencies_.now();
    const auto print = [&](const StoreClient::Request& request) {
      const bool is_late = now - request.asked >= rank.settings_.answer_time;
      out << (request.is_out ? (is_late ? "late" : "out") : "") << (request.hurries ? "!" : "")
          << (now < request.not_before ? "-" : ".");
    };
    out << rank.session_ << " " << rank.announced_ << rank.proposal_is_in_store_ << rank.is_enrolled_
        << rank.next_was_over_ << rank.bell_is_unreachable_ << rank.had_bell_ << rank.has_rung_;
    if (rank.latest_) out << " latest " << rank.latest_->session << " " << rank.latest_->number;
    if (rank.next_decision_) out << " next " << rank.next_decision_->commit << rank.next_decision_->rank;
    Print(out, rank.member_);
    for (const StoreClient::Request* request :
         {&rank.read_latest_, &rank.read_proposal_, &rank.read_decision_, &rank.write_vote_, &rank.read_outcome_,
          &rank.close_, &rank.enrol_, &rank.listen_})
      print(*request);
    if (!rank.is_leader()) return out.str();
    Print(out, rank.leader_);
    if (rank.leader_.ballot) out << (now - rank.leader_.ballot->opened > rank.leader_.vote_time ? " long" : "");
    out << " roll " << rank.roll_.number;
    for (size_t i = 0; i < rank.roll_.incarnations.size(); ++i)
      out << "," << rank.roll_.incarnations[i] << rank.roll_.is_read[i];
    out << " rings " << rank.rings_wanted_ << "-" << rank.rings_done_;
    for (const StoreClient::Request* request :
         {&rank.decide_, &rank.announce_, &rank.publish_, &rank.clear_, &rank.ring_})
      print(*request);
    for (const StoreClient::Request& request : rank.read_votes_) print(request);
    for (const StoreClient::Request& request : rank.read_roll_) print(request);
    return out.str();
  }
};

}  // namespace stepwatch::agree
